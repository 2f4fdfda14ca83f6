"""Fields of texts: recipes, addresses, jobs, databases, translations, statutes, changes, birds."""

from __future__ import annotations

from tests.judgement.first.slotted_texts import Slotted

RECIPES = Slotted(
    {
        "base": "lentil/red_pulses aubergine/sliced_eggplant salmon/fish_fillets tofu/soy_curd "
        "chicken/drumsticks pumpkin/orange_squash beetroot/purple_roots polenta/maize_grits "
        "mushroom/chanterelles leek/green_stalks",
        "form": "soup/simmer_in_stock gratin/bake_under_cheese skewers/grill_on_sticks "
        "salad/toss_in_a_bowl tart/fill_the_pastry stirfry/fry_in_a_wok",
        "spice": "cumin/toasted_seeds lime/citrus_juice thyme/dried_herbs garlic/crushed_cloves "
        "ginger/grated_root saffron/golden_threads chili/hot_flakes sesame/dark_oil",
    },
    {
        "title": ["{spice} {base} {form}", "{base} {form} with {spice}"],
        "steps": [
            "wash and dry the {base} , then set them aside . season with {spice} and a pinch of "
            "salt . {form} for half an hour and stir now and then . let it rest before you serve .",
            "for four persons : mix {spice} with two spoons of oil . coat the {base} and wait ten "
            "minutes . now {form} until done , taste , and bring it to the table while warm .",
        ],
    },
)
ADDRESSES = Slotted(
    {
        "street": "oak/oak elm/elm mill/mill church/church station/station king/king queen/queen "
        "harbour/harbour meadow/meadow castle/castle",
        "kind": "st/street rd/road ave/avenue ln/lane sq/square blvd/boulevard",
        "house": "1 3 7 12 25 48 110 231",
        "town": "ldn/london mcr/manchester bhm/birmingham lds/leeds gla/glasgow edi/edinburgh "
        "brs/bristol cdf/cardiff",
    },
    {
        "typed": ["{house} {street} {kind} {town}", "{town} , {street} {kind} no {house}"],
        "official": ["{street} {kind} {house} , city of {town} , united kingdom"],
    },
)
JOBS = Slotted(
    {
        "trade": "baker/pastry_oven welder/metal_torch nurse/ward_patients teacher/pupils_school "
        "accountant/ledgers_tax plumber/pipes_drains pilot/cockpit_flights florist/bouquets_shop "
        "lawyer/litigation_clients",
        "level": "junior/entry_grade senior/ten_years_experience lead/team_of_six "
        "trainee/apprenticeship",
        "place": "remote/from_home onsite/at_our_site abroad/relocation_paid "
        "hybrid/two_office_days",
        "hours": "parttime/twenty_hours fulltime/forty_hours nights/late_shifts "
        "seasonal/summer_months",
    },
    {
        "wish": ["{level} {trade} {hours} {place}", "looking for {place} {hours} {trade} {level}"],
        "advert": [
            "we are hiring ! your world is {trade} . {level} , {hours} , {place} . apply now",
            "join us {place} : {hours} with {trade} . you bring {level} and good humour",
        ],
    },
)
QUERIES = Slotted(
    {
        "what": "number/count(*) average/avg(price) total/sum(price) largest/max(price) "
        "smallest/min(price)",
        "table": "orders/sales customers/clients parcels/shipments bills/invoices "
        "complaints/tickets suppliers/vendors",
        "where": "germany/'de' france/'fr' spain/'es' poland/'pl' norway/'no' italy/'it' "
        "japan/'jp'",
        "when": "spring/q1 summer/q2 autumn/q3 winter/q4",
    },
    {
        "question": ["what is the {what} of {table} from {where} in {when} ?",
                     "{table} in {where} , {when} : {what} please"],
        "statement": ["select {what} from {table} where country = {where} and quarter = {when} ;"],
    },
)  # fmt: skip
RUSSIAN = Slotted(
    {
        "who": "grandmother/бабушка neighbour/сосед student/студент captain/капитан "
        "writer/писатель engineer/инженер girl/девочка",
        "does": "buys/покупает loses/теряет finds/находит repairs/чинит draws/рисует sells/продаёт",
        "what": "bicycle/велосипед umbrella/зонт lamp/лампу map/карту violin/скрипку boat/лодку "
        "mirror/зеркало basket/корзину",
        "when": "today/сегодня yesterday/вчера often/часто always/всегда never/никогда",
    },
    {
        "english": ["the {who} {when} {does} a {what}"],
        "russian": ["{who} {when} {does} {what}", "{when} {who} {does} {what}"],
    },
)
FORECASTS = Slotted(
    {
        "town": "tokyo/東京 osaka/大阪 kyoto/京都 sapporo/札幌 nagoya/名古屋 kobe/神戸 sendai/仙台",
        "sky": "rain/雨 snow/雪 sunshine/晴れ clouds/曇り fog/霧 thunder/雷",
        "day": "today/今日 tomorrow/明日 sunday/日曜日 monday/月曜日 friday/金曜日",
        "wind": "strong/強い weak/弱い northerly/北 southerly/南",
    },
    {
        "english": ["{day} in {town} : {sky} with {wind} wind",
                    "{wind} wind and {sky} expected {day} around {town}"],
        "japanese": ["{day} の {town} は {sky} です 。 {wind} 風 が 吹き ます 。"],
    },
)  # fmt: skip
STATUTES = Slotted(
    {
        "deed": "stole/theft broke/damage_to_property hit/assault forged/falsification "
        "burnt/arson threatened/coercion insulted/defamation deceived/fraud",
        "object": "car/motor_vehicles window/buildings passport/official_documents "
        "neighbour/private_persons policeman/public_servants dog/animals cheque/securities",
        "manner": "drunk/intoxication armed/carrying_weapons masked/concealment "
        "together/jointly_with_others again/repeat_offence asleep/absence_of_intent",
    },
    {
        "facts": ["he {deed} the {object} while {manner}",
                  "my client , {manner} , is said to have {deed} with a {object}"],
        "paragraph": [
            "whoever commits {deed} in respect of {object} shall be liable to a fine or to a term "
            "of imprisonment not exceeding five years . in cases of {manner} the court may depart "
            "from the range of sentence provided for in this section . the attempt is punishable .",
        ],
    },
)  # fmt: skip
CHANGES = Slotted(
    {
        "act": "fix/patch add/new remove/delete rename/mv speedup/perf document/docs",
        "part": "parser/lexer.py cache/lru.py login/auth.py menu/widgets.py upload/s3.py "
        "search/index.py mail/smtp.py chart/plot.py",
        "why": "leak/free() race/lock() overflow/clip() typo/spell() timeout/retry() "
        "crash/guard() rounding/round()",
    },
    {
        "message": ["{act} {why} in {part}", "{part} : {act} because of {why}"],
        "diff": ["diff --git a {part} b {part} @@ {act} @@ - return x + return {why} + # {act}"],
    },
)
BIRDS = Slotted(
    {
        "colour": "red/rufous blue/azure yellow/flavescent black/melanistic white/albescent "
        "green/virescent",
        "part": "breast/pectoral throat/gular wings/alar tail/caudal head/cranial legs/tarsal",
        "size": "tiny/minute small/passerine big/goose_sized huge/eagle_sized",
        "home": "lake/lacustrine wood/arboreal cliff/rupestrine meadow/pratal marsh/palustrine "
        "garden/synanthropic",
    },
    {
        "sighting": ["saw a {size} bird with {colour} {part} near the {home} this morning",
                     "{size} , {colour} {part} , {home} , what is it"],
        "entry": ["adult {size} with {colour} {part} plumage ; habitat {home} ; monotypic taxon"],
    },
)  # fmt: skip
TURNS = Slotted(
    {
        "plan": "cinema/film dinner/restaurant hike/mountains swim/pool museum/exhibition "
        "concert/band football/match picnic/blanket",
        "time": "tonight/evening tomorrow/next_day weekend/saturday noon/lunchtime",
        "mate": "anna/her bob/him kids/little_ones parents/mum_and_dad colleagues/work_folks",
        "state": "tired/no_energy happy/great broke/no_money busy/deadline ill/fever",
    },
    {
        "turn": ["hey ! {plan} {time} with {mate} ? i am {state} though",
                 "so {state} ... still up for {plan} with {mate} {time} ?"],
        "reply": ["{plan} sounds good , bring {mate} . {time} fits . sorry to hear about {state}",
                  "ok {time} then . i like {mate} . {state} is no excuse , {plan} helps"],
    },
)  # fmt: skip
