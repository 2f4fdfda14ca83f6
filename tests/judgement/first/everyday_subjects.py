"""Subjects of every day: recipes, chats, homes, products, jobs, headlines, addresses, weather."""

from __future__ import annotations

from tests.judgement.first.subject_kit import Subject

RECIPES = Subject(
    {
        "dish": "lasagne/pasta_sheets risotto/arborio goulash/paprika_stew falafel/chickpeas "
        "tiramisu/mascarpone paella/saffron borscht/beetroot moussaka/aubergine strudel/filo "
        "gazpacho/tomatoes ratatouille/courgettes pavlova/meringue",
        "way": "vegan/plant_based quick/fifteen_minutes cheap/budget festive/candles "
        "light/few_calories spicy/cayenne crunchy/breadcrumbs grandma's/old_notebook",
        "crowd": "two/couple six/half_dozen ten/big_pot toddlers/small_spoons guests/dinner_party",
    },
    ("{way} {dish} for {crowd}", "{dish} : {way} , {crowd}"),
    (
        "take {dish} and salt . stir on low heat until soft . good for {crowd} . note : {way} .",
        "preheat the oven . this {way} version calls for {dish} , oil and garlic . rest it before "
        "you plate it ( {crowd} ) .",
    ),
    ("freezes well .", "leftovers keep for days .", "serve with green salad and a dry white ."),
)
CHATS = Subject(
    {
        "plan": "cinema/film hike/trail_boots barbecue/sausages museum/exhibition "
        "bowling/strike picnic/blanket karaoke/microphone sauna/towel rowing/boat "
        "quiz/trivia market/stalls",
        "day": "monday/start_of_week wednesday/midweek friday/after_work saturday/weekend "
        "tonight/this_evening tomorrow/in_a_day",
        "worry": "rain/umbrella money/i_pay tired/coffee kids/babysitter late/taxi "
        "sick/tea crowded/early_slot",
    },
    (
        "a: {plan} on {day} ? b: hm , {worry} ... a: come on",
        "a: hey b: hey a: still up for {plan} {day} b: maybe , {worry} you know",
    ),
    ("ok {day} then , {worry} solves it , i bring the {plan} stuff", "{plan} ! {worry} and {day}"),
)
HOMES = Subject(
    {
        "kind": "flat/apartment cottage/thatched loft/industrial_beams villa/estate "
        "studio/single_room houseboat/mooring bungalow/ground_floor penthouse/top_floor "
        "farmhouse/acres",
        "near": "school/campus lake/waterfront metro/underground airport/runway woods/forest "
        "harbour/quay hospital/clinic",
        "must": "balcony/terrace garage/carport fireplace/chimney pets/dogs_welcome lift/elevator "
        "garden/lawn cellar/basement",
    },
    ("looking for a {kind} near a {near} with {must}", "{kind} , {must} , close to {near} please"),
    (
        "for sale : {kind} , {must} , five minutes from the {near} . viewing by appointment",
        "new ! charming {kind} ( {near} ) incl. {must}",
    ),
    ("energy class b .", "no agents .", "heating renewed , windows to the south ."),
)
PARTS = Subject(
    {
        "part": "brake_pad/bp oil_filter/of wiper/wb spark_plug/sp timing_belt/tb clutch/ck "
        "headlamp/hl radiator/rd wheel_bearing/wg muffler/mf",
        "make": "corolla/toy golf/vwg fiesta/frd panda/fia octavia/sko clio/ren civic/hon",
        "side": "front/fr rear/rr left/lh right/rh",
        "year": "2009/09 2012/12 2015/15 2018/18 2021/21",
    },
    ("{side} {part} {make} {year}", "{make} {year} {part} {side}"),
    ("art. {part} - {make} - {side} - {year} oem", "{make} {part} {side} {year} new boxed"),
)
JOBS = Subject(
    {
        "role": "nurse/bedside_care welder/seams_and_torches analyst/dashboards "
        "chef/kitchen_brigade translator/bilingual_texts gardener/hedges_and_beds "
        "pilot/flight_hours notary/deeds tutor/homework plumber/pipes",
        "level": "junior/first_job senior/a_decade_of_practice lead/ran_a_team "
        "intern/still_enrolled",
        "shift": "night/after_dark weekend/saturdays parttime/twenty_hours remote/from_home "
        "seasonal/summers_only",
        "extra": "english/toefl driving/licence_b excel/pivot_tables firstaid/red_cross",
    },
    ("we hire a {level} {role} , {shift} , {extra} required",),
    (
        "about me : {level} , used to {role} . i prefer work {shift} . certificates : {extra} .",
        "{role} ; {extra} ; {level} ; available {shift}",
    ),
)
HEADLINES = Subject(
    {
        "who": "mayor/town_hall union/workers startup/founders bishop/diocese "
        "striker/football_club senator/capitol "
        "airline/carrier novelist/publisher zoo/keepers bank/lender",
        "did": "quits/stepped_down sues/filed_a_complaint wins/took_the_prize "
        "apologises/said_sorry merges/joined_forces vanishes/has_not_been_seen "
        "expands/opened_branches",
        "why": "scandal/leaked_mails strike/picket_line flood/high_water vote/ballots "
        "debt/creditors fire/flames",
    },
    ("{who} {did} after {why}", "{why} : {who} {did}"),
    (
        "in a statement on tuesday the {who} confirmed what many had guessed : it {did} , weeks "
        "after {why} made the front pages . neighbours were surprised .",
        "it {did} . for the {who} , the {why} had been too much , our reporter writes .",
    ),
    ("shares fell slightly .", "more follows soon .", "a spokesman declined to comment ."),
)
ADDRESSES = Subject(
    {
        "number": "3/3 7/7 12/12 18/18 25/25 44/44 61/61 90/90",
        "street": "oak_street/oak_st mill_lane/mill_ln king_road/king_rd park_avenue/park_ave "
        "church_square/church_sq abbey_drive/abbey_dr hill_court/hill_ct bay_boulevard/bay_blvd",
        "town": "saint_albans/st_albans mount_vernon/mt_vernon fort_worth/ft_worth "
        "north_haven/n_haven new_lisbon/nw_lisbon west_orange/w_orange",
        "flat": "apartment/apt suite/ste floor/fl building/bldg",
    },
    ("{number} {street} {flat} b {town}", "{flat} b , {number} {street} , {town}"),
    ("{number} {street} {town} {flat} b", "{town} {number} {street} {flat} b usa"),
)
WEATHER = Subject(
    {
        "sky": "ovc/overcast clr/clear_skies bkn/broken_clouds ts/thunder fg/foggy sn/snow "
        "ra/wet_and_rainy dz/drizzle gr/hail",
        "wind": "n05/light_northerly s10/breeze_from_the_south e20/strong_easterly "
        "w35/westerly_gale vrb/calm_and_shifting",
        "heat": "m08/bitterly_cold 02/near_freezing 14/mild 23/warm 36/scorching",
        "place": "eddf/frankfurt egll/london lfpg/paris lebl/barcelona",
    },
    ("metar {place} {wind} kt {sky} {heat} q1013",),
    (
        "{place} : {heat} and {sky} with {wind} winds",
        "expect {sky} in {place} today , {wind} , staying {heat}",
    ),
    ("drive with care .", "sunset before eight ."),
)
