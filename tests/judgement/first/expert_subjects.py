"""Subjects of experts: laws, shell, wards, species, matches, Cyrillic, Chinese, sums, captions."""

from __future__ import annotations

from tests.judgement.first.subject_kit import Subject

LAWS = Subject(
    {
        "actor": "tenant/lessee landlord/lessor baker/foodstuff_trader driver/motor_vehicle_holder "
        "hunter/game_licensee teacher/civil_servant heir/legal_successor "
        "architect/master_builder fisherman/holder_of_fishing_rights",
        "act": "sublet/cede_use build/erect_structures burn/kindle_fires advertise/solicit_custom "
        "record/store_personal_data sell/transfer_title park/leave_vehicles strike/cease_labour",
        "limit": "sundays/days_of_rest protected_land/nature_reserves minors/persons_under_age "
        "debts/outstanding_claims emergencies/cases_of_peril borders/frontier_zone",
    },
    ("can a {actor} {act} ( {limit} ) ?", "{limit} - is the {actor} allowed to {act} ?"),
    (
        "art. ( one ) the {actor} shall not {act} unless the competent authority has given its "
        "prior consent in writing . ( two ) for {limit} the consent may be refused or be tied to "
        "conditions . ( three ) whoever acts against this article is liable to a fine .",
        "by way of derogation from the foregoing articles , and with regard to {limit} , it is "
        "lawful for the {actor} to {act} where no third party suffers harm therefrom .",
    ),
)
SHELL = Subject(
    {
        "deed": "list/ls delete/rm copy/cp move/mv compress/gzip count/wc print/cat "
        "checksum/sha1sum open/xdg-open upload/scp",
        "kind": "pictures/*.jpg logs/*.log videos/*.mp4 sheets/*.csv scripts/*.sh notes/*.md "
        "archives/*.tar",
        "age": "today's/-mtime_0 week-old/-mtime_+7 month-old/-mtime_+30 year-old/-mtime_+365",
        "where": "home/~ downloads/~dl temp/tmpdir desktop/~desk server/srv",
    },
    (
        "{deed} all {age} {kind} in my {where} folder",
        "how do i {deed} {kind} ( {age} ) from {where}",
    ),
    (
        "find {where} -name {kind} {age} -exec {deed} + ;",
        "cd {where} && {deed} $( find {kind} {age} )",
    ),
)
WARD = Subject(
    {
        "sign": "sob/shortness_of_breath cp/chest_pain ha/headache n+v/nausea_and_vomiting "
        "abd/belly_ache syncope/fainting hematuria/blood_in_urine dysphagia/trouble_swallowing "
        "edema/swollen_legs palp/racing_heart",
        "since": "x1d/since_yesterday x3d/for_three_days x2wk/for_two_weeks "
        "x6mo/for_half_a_year prn/now_and_then",
        "past": "htn/high_blood_pressure dm2/diabetes copd/smoker's_lung cad/heart_disease "
        "ckd/weak_kidneys nkda/no_allergies",
        "sex": "m/man f/woman",
    },
    ("{sex} c/o {sign} {since} , pmh {past}", "pt {sex} , {past} , presents w/ {sign} {since}"),
    (
        "the {sex} reports {sign} {since} and is known to have {past} .",
        "{since} the {sex} has had {sign} ; history of {past} .",
    ),
)
SPECIES = Subject(
    {
        "genus": "quercus/oak acer/maple salix/willow betula/birch pinus/pine rosa/rose "
        "viola/violet allium/onion lilium/lily prunus/cherry",
        "trait": "alba/white rubra/red nigra/black lutea/yellow glauca/bluish aurea/golden",
        "habit": "montana/of_mountains palustris/of_marshes maritima/of_coasts "
        "sylvestris/of_woods arvensis/of_fields",
    },
    ("{genus} {trait} var. {habit}",),
    ("the {trait} {genus} , found {habit}", "{habit} grows a {trait} kind of {genus}"),
)
MATCHES = Subject(
    {
        "home": "ajax/dutch_side porto/dragons celta/galicians brugge/belgians zenit/petersburg "
        "malmo/swedes dinamo/zagreb sparta/czechs",
        "away": "basel/swiss lazio/romans nantes/canaries rangers/glasgow bergen/norwegians "
        "galata/turks",
        "result": "0-0/goalless_draw 1-0/narrow_win 5-1/rout 2-3/comeback_defeat "
        "3-3/six_goal_thriller",
        "stage": "group/early_round semi/last_four final/trophy_night friendly/test",
    },
    ("{stage} | {home} v {away} | {result}",),
    (
        "what a {result} ! the {home} met the {away} in the {stage} .",
        "{stage} report : {away} on the road to {home} , a {result} in front of a full house .",
    ),
)
CYRILLIC = Subject(
    {
        "who": "grandmother/бабушка boy/мальчик engineer/инженер neighbour/сосед "
        "singer/певица captain/капитан doctor/врач student/студент",
        "does": "buys/покупает reads/читает draws/рисует loses/теряет finds/находит sells/продаёт "
        "loves/любит",
        "what": "milk/молоко newspaper/газету horse/лошадь ticket/билет map/карту ring/кольцо "
        "window/окно",
        "when": "yesterday/вчера often/часто never/никогда always/всегда",
    },
    ("the {who} {when} {does} the {what}", "{when} the {who} {does} a {what}"),
    ("{who} {when} {does} {what}", "{when} {does} {what} {who}"),
)
CHINESE = Subject(
    {
        "who": "i/我 he/他 we/我_们 teacher/老_师 friend/朋_友 child/孩_子 cook/厨_师",
        "time": "today/今_天 tomorrow/明_天 spring/春_天 morning/早_上 weekend/周_末",
        "place": "beijing/北_京 school/学_校 shop/商_店 riverside/河_边 station/车_站 park/公_园",
        "does": "sings/唱_歌 swims/游_泳 eats/吃_饭 sleeps/睡_觉 works/工_作 waits/等_人",
    },
    ("{who} {does} at the {place} ( {time} )", "{time} {who} {does} in {place}"),
    ("{who} {time} 在 {place} {does} 。", "{time} , {who} 在 {place} {does} 。"),
)
CAPTIONS = Subject(
    {
        "who": "toddler/baby cyclist/biker waiter/barman ballerina/dancer fisher/angler "
        "puppy/hound goat/kid twins/siblings",
        "does": "climbs/ascends paints/colours hugs/embraces throws/hurls washes/rinses "
        "carries/holds",
        "what": "fence/railing pumpkin/squash kite/dragon bucket/pail statue/sculpture "
        "ladder/steps mirror/glass",
        "scene": "dusk/twilight snow/frost crowd/people meadow/grass alley/lane",
    },
    ("a {who} {does} a {what} , {scene}", "{scene} : one {who} who {does} the {what}"),
    ("the {who} {does} some {what} in the {scene}", "picture of a {who} , {scene} , {does} {what}"),
)
FORUM = Subject(
    {
        "goal": "learn/study quit/stop fix/repair sell/get_rid_of clean/wash choose/pick "
        "store/keep",
        "thing": "piano/keyboard smoking/cigarettes bicycle/bike car/automobile carpet/rug "
        "laptop/notebook wine/bottles guitar/strings sofa/couch",
        "frame": "cheaply/without_much_money fast/in_a_short_time alone/by_myself "
        "abroad/in_another_country old/at_sixty legally/within_the_law",
    },
    ("what is the best way to {goal} {thing} {frame} ?", "how can i {goal} {thing} {frame}"),
    ("{frame} : any tips to {goal} a {thing} ?", "is it hard to {goal} my {thing} {frame} ?"),
)
