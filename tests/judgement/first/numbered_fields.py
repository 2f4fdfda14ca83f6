"""Fields of texts: sums, patents, homes, offers, posts, codes, mails, chemistry, and news."""

from __future__ import annotations

from tests.judgement.first.slotted_texts import Slotted

SUMS = Slotted(
    {
        "name": "tom/t lena/l omar/o mei/m ivan/i zoe/z",
        "first": "two/2 three/3 five/5 six/6 eight/8 nine/9",
        "act": "gets/+ loses/- doubles/* shares/÷",
        "second": "one/1 four/4 seven/7 ten/10 eleven/11 twelve/12",
        "unit": "apples/a coins/c marbles/b pencils/p",
    },
    {
        "problem": ["{name} has {first} {unit} and {act} {second} . how many now ?",
                    "with {second} that {name} {act} , {first} {unit} become how many ?"],
        "equation": ["{name} = {first} {act} {second} [ {unit} ]"],
    },
)  # fmt: skip
PATENTS = Slotted(
    {
        "device": "valve/flow_restrictor antenna/radiating_element hinge/pivot_joint "
        "battery/electrochemical_cell lens/refractive_body gripper/prehensile_tool "
        "pump/displacement_unit sensor/transducer",
        "material": "ceramic/sintered_oxide polymer/thermoplastic steel/ferrous_alloy "
        "graphene/carbon_monolayer rubber/elastomer glass/vitreous_matter",
        "use": "surgery/operating_theatre farming/agricultural_field mining/underground_works "
        "space/orbital_vehicle ships/marine_vessel kitchens/domestic_appliance",
    },
    {
        "abstract": ["the invention relates to a {device} made of {material} for {use} , which is "
                     "cheap to produce and lasts long under load",
                     "for {use} a {device} is disclosed ; {material} gives strength at low mass"],
        "claim": ["1 . an apparatus comprising a {device} , characterised in that said {device} "
                  "consists at least in part of {material} , wherein the apparatus is adapted for "
                  "use in a {use} , and further comprising a housing and fastening means . 2 . the "
                  "apparatus of claim 1 , wherein the housing is sealed against moisture"],
    },
)  # fmt: skip
HOMES = Slotted(
    {
        "kind": "flat/apartment house/detached_home studio/single_room loft/attic_space "
        "villa/mansion",
        "rooms": "1/one_bed 2/two_beds 3/three_beds 4/four_beds",
        "view": "sea/ocean_front park/green_outlook street/city_side hills/panorama",
        "heat": "gas/boiler oil/tank pump/geothermal wood/stove",
        "extra": "garage/parking pool/swimming balcony/terrace lift/elevator cellar/storage",
    },
    {
        "advert": ["{kind} , {rooms} rm , {view} view , {heat} heating , {extra}",
                   "for sale : {rooms} room {kind} with {extra} , {view} , heats by {heat}"],
        "listing": ["charming {kind} offering {rooms} and {extra} , {view} , warmed by a {heat}",
                    "{view} ! {rooms} , {kind} , {heat} , {extra} included"],
    },
)  # fmt: skip
OFFERS = Slotted(
    {
        "maker": "sonara/snr voltec/vlt lumino/lmn kestrel/kst orbita/orb",
        "ware": "headphones/headset television/tv camera/cam tablet/pad speaker/soundbox "
        "monitor/display",
        "model": "x100 x200 x300 z10 z20 pro5 pro7",
        "size": "small/s medium/m large/l",
        "colour": "black/blk white/wht silver/slv blue/blu",
    },
    {
        "ours": ["{maker} {model} {ware} , {colour} , {size}"],
        "theirs": ["{ware} by {maker} - {size} / {colour} - mod. {model} - free shipping",
                   "new ! {maker} {ware} {model} {colour} {size}"],
    },
)  # fmt: skip
POSTS = Slotted(
    {
        "subject": "marathon/#running sourdough/#baking puppy/#dogs guitar/#music exam/#study "
        "roses/#gardening chess/#boardgames tattoo/#ink sailing/#ocean",
        "mood": "proud/#winning sad/#feels bored/#meh excited/#cantwait angry/#rant "
        "grateful/#blessed",
        "time": "dawn/#earlybird midnight/#nightowl sunday/#weekend holidays/#vacation "
        "monday/#workweek",
    },
    {
        "post": ["so {mood} about my {subject} at {time} lol",
                 "{time} again and all i think of is {subject} ... {mood} !",
                 "who else is {mood} ? {subject} , {time} , no filter"],
        "tags": ["{subject} {mood} {time}", "{time} {subject} {mood}"],
    },
)  # fmt: skip
NOTES = Slotted(
    {
        "organ": "heart/i cardiac/i lung/j bronchial/j stomach/k bowel/k skin/l dermal/l bone/m "
        "joint/m kidney/n bladder/n",
        "finding": "pain/r52 swelling/r60 bleeding/r58 inflammation/r70 stenosis/r72 tumour/d49",
        "side": "left/.1 right/.2 bilateral/.3",
        "course": "acute/a chronic/c recurrent/r",
    },
    {
        "note": ["pt presents w/ {course} {side} {organ} {finding} , vitals stable , f/u 2 wks",
                 "{side} {finding} of {organ} , {course} , no allergies known"],
        "code": ["{organ} {finding} {side} {course}"],
    },
)  # fmt: skip
MAILS = Slotted(
    {
        "matter": "invoice/unpaid_amount meeting/conference_room contract/signature_page "
        "holiday/leave_days laptop/broken_screen visitor/guest_badge training/course_seat "
        "delivery/late_truck",
        "wish": "approve/your_consent cancel/call_it_off move/another_date explain/some_details "
        "forward/pass_it_on",
        "due": "today/before_five tomorrow/by_noon friday/end_of_week soon/when_you_can",
    },
    {
        "subject": ["{wish} {matter} {due}", "re : {matter} - {wish} - {due}"],
        "body": ["dear all , i write about the {matter} that we spoke of last week . what i need "
                 "is {wish} , if possible {due} . many thanks and kind regards , j .",
                 "hi , quick one : {due} would be best for {wish} . it is the {matter} again . "
                 "sorry for the trouble , and thank you in advance"],
    },
)  # fmt: skip
SALTS = Slotted(
    {
        "metal": "sodium/na potassium/k calcium/ca magnesium/mg iron/fe copper/cu silver/ag "
        "lithium/li",
        "rest": "chloride/cl nitrate/no3 sulphate/so4 carbonate/co3 bromide/br phosphate/po4 "
        "oxide/o acetate/ac",
        "form": "powder/s solution/aq vapour/g melt/l",
        "grade": "technical/95% pure/99% reference/99.9%",
    },
    {
        "name": ["{grade} {metal} {rest} {form}", "{metal} {rest} , {form} , {grade} grade"],
        "formula": ["{metal} {rest} ( {form} ) {grade}"],
    },
)
NEWS = Slotted(
    {
        "who": "minister/cabinet_member striker/footballer actress/film_star bank/lender "
        "startup/young_firm airline/carrier mayor/city_head",
        "does": "quits/steps_down wins/triumphs sues/goes_to_court apologises/says_sorry "
        "expands/grows denies/rejects_claims",
        "where": "paris/french_capital berlin/german_capital tokyo/japanese_capital "
        "cairo/egyptian_capital lima/peruvian_capital oslo/norwegian_capital",
        "why": "scandal/affair strike/walkout record/best_ever storm/bad_weather vote/ballot",
    },
    {
        "headline": ["{who} {does} in {where} after {why}", "{why} : {where} {who} {does}"],
        "rival": ["{who} in {where} {does} over {why}", "after {why} , {where} {who} {does}"],
    },
)
