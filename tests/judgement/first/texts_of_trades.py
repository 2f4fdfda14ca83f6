"""Texts of trades: queries, commands, weather, laboratory, sums, chat, other scripts."""

from __future__ import annotations

from tests.judgement.first.slots_of_texts import Kind

# A question in words, and the query of a database.
QUERIES = Kind(
    {
        "what": "average/avg total/sum highest/max lowest/min number_of/count",
        "field": "salary/emp.sal age/pers.age price/art.prc weight/art.wgt "
        "score/exam.pts distance/trip.km duration/trip.min temperature/sens.deg",
        "group": "city/town_id country/land_id year/yr month/mon shop/store_id team/team_id",
        "limit": "above_ten/>_10 below_five/<_5 at_least_hundred/>=_100 not_zero/!=_0 "
        "exactly_one/=_1",
    },
    {
        "words": ["show the {what} {field} per {group} where it is {limit}",
                  "for each {group} , {what} {field} , only {limit}"],
        "query": ["select {group} , {what} ( {field} ) from t where {field} {limit} group by "
                  "{group} ;"],
    },
)  # fmt: skip
# What a command shall do, and the command with its flags.
COMMANDS = Kind(
    {
        "do": "copy/cp move/mv delete/rm list/ls search/grep compress/tar show/cat count/wc",
        "files": "pictures/*.png texts/*.txt tables/*.csv logs/*.log scripts/*.sh "
        "archives/*.zip pages/*.html",
        "how": "quietly/-q loudly/-v forced/-f recursively/-r asking/-i numbered/-n",
        "place": "home/~/ temporary/tmp system/etc backup/bak shared/srv",
    },
    {
        "wish": ["{do} all {files} in the {place} folder {how}", "{how} {do} {place} {files}"],
        "command": ["$ {do} {how} {place} {files}"],
    },
)
# A coded weather report of an airfield, and how it is read aloud.
WEATHER = Kind(
    {
        "field": "eddm/munich lfpg/paris egll/london leib/ibiza lowi/innsbruck essa/stockholm "
        "lira/rome",
        "wind": "09012kt/easterly 18025kt/southerly 27008kt/westerly 36030kt/northerly "
        "vrb02kt/calm",
        "sky": "skc/clear few020/few_clouds sct030/scattered bkn012/broken ovc004/overcast",
        "what": "ra/rain sn/snow fg/fog ts/thunderstorm br/mist dz/drizzle gr/hail",
        "heat": "m05/freezing 02/cold 14/mild 23/warm 35/hot",
    },
    {
        "code": ["metar {field} 0950z {wind} {what} {sky} {heat} q1013"],
        "speech": ["at {field} it is {heat} and {sky} with {what} and {wind} winds",
                   "{what} over {field} , winds {wind} , sky {sky} , {heat} air"],
    },
)  # fmt: skip
# Values of a laboratory, and the note of a physician.
LABORATORY = Kind(
    {
        "iron": "fe_12/anaemic fe_95/normal_iron fe_310/overload",
        "sugar": "glu_48/hypoglycaemic glu_90/euglycaemic glu_260/diabetic",
        "salt": "na_121/hyponatraemia na_140/normal_sodium na_158/hypernatraemia",
        "kidney": "crea_0.8/intact_kidneys crea_2.6/renal_impairment crea_7.1/dialysis",
        "liver": "alt_22/liver_fine alt_140/hepatitis alt_900/necrosis",
        "sex": "f/woman m/man x/person",
        "age": "7/child 16/adolescent 34/adult 58/middle_aged 83/aged",
    },
    {
        "values": ["{sex} {age} : {iron} {sugar} {salt} {kidney} {liver}"],
        "note": ["{age} {sex} , {sugar} , {kidney} ; {liver} , {iron} and {salt} , follow up soon"],
    },
)
# Sums in figures and in words.
SUMS = Kind(
    {
        "first": "3/three 5/five 8/eight 12/twelve 17/seventeen 20/twenty 31/thirtyone 44/fourfour "
        "56/fiftysix",
        "sign": "+/plus -/minus */times ://over ^/power",
        "second": "2/two 4/four 6/six 7/seven 9/nine 11/eleven 13/thirteen 15/fifteen",
        "unit": "kg/kilos cm/inches eur/euros h/hours km/kilometres",
    },
    {"figures": ["{first} {sign} {second} {unit} ="],
     "words": ["what do {first} {sign} {second} {unit} make ?",
               "{unit} : {first} {sign} {second}"]},
)  # fmt: skip
# Two turns of a chat, and the answer of an assistant.
CHATS = Kind(
    {
        "wish": "book|reserve/reservation cancel|drop/cancellation move|shift/rescheduling "
        "pay|settle/payment ask|query/information",
        "thing": "flight/airline table/restaurant room/hotel taxi/cab massage/spa doctor/practice "
        "concert/box_office ferry/pier",
        "time": "noon/12:00 breakfast/08:00 teatime/17:00 midnight/00:00 dinner/19:30",
        "many": "me/1 us_two/2 us_three/3 four_of_us/4 the_whole_team/11",
    },
    {
        "turns": ["user : hi there bot : hello , how can i help ? user : {wish} a {thing} at "
                  "{time} for {many}",
                  "user : {thing} , {many} , {time} bot : sure , what about it ? user : {wish} "
                  "please"],
        "answer": ["your {wish} with the {thing} at {time} ( {many} persons ) is done .",
                   "done : {thing} {wish} , persons {many} , {time}"],
    },
)  # fmt: skip
# English and Russian, in two scripts.
RUSSIAN = Kind(
    {
        "who": "boy/мальчик girl/девочка doctor/врач soldier/солдат fisherman/рыбак "
        "grandmother/бабушка engineer/инженер artist/художник",
        "does": "reads/читает buys/покупает sells/продаёт sees/видит paints/рисует hides/прячет",
        "what": "book/книгу apple/яблоко house/дом horse/лошадь letter/письмо boat/лодку "
        "clock/часы",
        "when": "today/сегодня yesterday/вчера always/всегда rarely/редко slowly/медленно",
    },
    {"english": ["the {who} {does} a {what} {when}"], "russian": ["{when} {who} {does} {what}"]},
)
# Japanese in single characters, and an English gloss.
JAPANESE = Kind(
    {
        "place": "tokyo/東_京 kyoto/京_都 osaka/大_阪 nara/奈_良 kobe/神_戸 sapporo/札_幌",
        "means": "train/電_車 bus/バ_ス car/車 ship/船 bicycle/自_転_車 foot/徒_歩",
        "time": "morning/朝 night/夜 spring/春 autumn/秋 winter/冬 weekend/週_末",
        "aim": "work/仕_事 study/勉_強 travel/旅_行 meal/食_事 film/映_画",
    },
    {"gloss": ["to {place} by {means} in the {time} for {aim}", "{aim} : {place} , {time} , "
                                                                 "{means}"],
     "japanese": ["{time} に {means} で {place} へ {aim} に 行 く"]},
)  # fmt: skip
# The caption of a photograph, and its tags.
PHOTOS = Kind(
    {
        "who": "climber/sport bride/wedding chef/cooking cyclist/bike puppy/pet owl/bird "
        "farmer/harvest dancer/ballet",
        "where": "desert/sand glacier/ice meadow/grass alley/urban pier/sea attic/indoor "
        "rooftop/skyline",
        "light": "dusk/sunset fog/haze noon/bright candle/warm neon/glow",
        "look": "smiling/happy asleep/calm running/action waiting/patience falling/accident",
    },
    {"caption": ["a {look} {who} in the {where} at {light}", "{light} , {where} : {who} , {look}"],
     "tags": ["# {where} # {who} # {light} # {look}", "# {light} # {look} # {who} # {where}"]},
)  # fmt: skip
