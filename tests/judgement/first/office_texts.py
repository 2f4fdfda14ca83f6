"""Fields of texts of offices: laws, wards, queries to databases, shells, patents, vacancies."""

from __future__ import annotations

from tests.judgement.first.fields import Field

# A citizen's question, and a long paragraph of the law.
STATUTES = Field(
    {
        "act": "park/vehicle burn/combustion fish/angling hunt/game build/construction "
        "camp/overnight dig/excavation sell/commerce film/recording fly/aviation",
        "place": "forest/woodland beach/shoreline square/plaza church/worship school/education "
        "harbour/port bridge/viaduct lake/reservoir graveyard/cemetery market/bazaar",
        "time": "night/nocturnal sunday/sabbath winter/frost summer/heat holidays/vacation "
        "easter/paschal noon/midday weekend/leisure",
    },
    {
        "question": "may i {act} at the {place} at {time} ?",
        "paragraph": "subsection 4 . without prejudice to the rights of third parties , any person "
        "who engages in {act} within the bounds of a {place} in a {time} period shall hold a "
        "permit issued by the competent authority ; breach is an offence",
    },
)
# Shorthand of a ward, and the letter to the family doctor.
WARD = Field(
    {
        "site": "knee/genu hip/coxa lung/pulmo liver/hepar kidney/ren skin/cutis ear/auris "
        "eye/oculus stomach/gaster heart/cor brain/cerebrum",
        "finding": "swelling/oedema bleeding/haemorrhage stone/calculus clot/thrombus "
        "scar/cicatrix "
        "growth/neoplasm tear/rupture pus/abscess narrowing/stenosis",
        "drug": "aspirin/acetylsalicylic heparin/anticoagulant penicillin/antibiotic "
        "cortisone/steroid insulin/hormone morphine/opioid iron/supplement ibuprofen/nsaid",
    },
    {
        "note": "pt c/o {site} {finding} rx {drug}",
        "letter": "dear colleague , examination of the {site} showed {finding} , for which "
        "{drug} therapy was begun",
    },
)
# A wish in words, and the statement of SQL.
STATEMENTS = Field(
    {
        "sum": "average/avg total/sum highest/max lowest/min number/count spread/stddev "
        "middle/median first/head",
        "field": "salary/wage_eur price/amt_net age/birth_yr weight/mass_kg stock/qty_hand "
        "rating/stars_int delay/dly_min height/hgt_cm distance/km_run",
        "table": "employees/tbl_hr orders/tbl_ord patients/tbl_pat flights/tbl_flt books/tbl_lib "
        "players/tbl_ply hotels/tbl_htl sensors/tbl_sen",
        "by": "country/iso3 month/mm colour/rgb_hex department/dept_id gender/sex_cd city/plz",
    },
    {
        "wish": "show the {sum} {field} of {table} per {by}",
        "sql": "select {by} , {sum} ( {field} ) from {table} group by {by} ;",
    },
)
# A command line, and its explanation.
SHELL = Field(
    {
        "tool": "grep/search sed/substitute tar/archive scp/transmit rm/delete wc/count mv/rename "
        "chmod/permit tail/end diff/compare",
        "file": "*.log/journals *.csv/spreadsheets *.py/scripts *.jpg/photos *.mp3/songs "
        "*.tex/essays "
        "*.sql/dumps *.html/websites *.zip/bundles",
        "flag": "-r/recursively -v/verbosely -f/forcibly -n/numbered -i/interactively -q/silently "
        "-z/compressed -t/timed",
        "place": "~/home tmp/scratch etc/settings mnt/disk here/current above/parent",
    },
    {
        "command": "{tool} {flag} {place} {file}",
        "explanation": "{tool} the {file} {flag} in the {place} folder",
    },
)
# The title of a patent, and its first claim, of up to 60 tokens.
PATENTS = Field(
    {
        "device": "pump/impeller valve/closure sensor/transducer antenna/radiator battery/cell "
        "engine/piston lens/optic brake/caliper loom/weaving crane/hoist",
        "means": "magnetic/solenoid hydraulic/fluid optical/laser thermal/bimetal "
        "acoustic/ultrasound "
        "pneumatic/air chemical/catalyst wireless/radio",
        "goal": "leakage/sealing noise/damping wear/abrasion drift/calibration corrosion/coating "
        "vibration/resonance overload/fuse theft/lock",
    },
    {
        "title": "{means} {device} against {goal}",
        "claim": "1 . an apparatus comprising a housing , a first and a second member movably held "
        "in said housing , and a {device} coupled to the second member , characterised in that "
        "the {device} is driven by {means} action and that a unit for {goal} is arranged between "
        "said members so as to keep them in place",
    },
)
# A vacancy, and a line of a curriculum vitae.
VACANCIES = Field(
    {
        "post": "nurse/caregiver welder/metalworker teacher/pedagogue cook/chef driver/chauffeur "
        "lawyer/attorney baker/patissier gardener/landscaper coder/developer tailor/seamstress",
        "skill": "patience/calm english/bilingual leadership/supervising spreadsheets/excel "
        "lifting/strength driving/licence selling/persuasion planning/organising "
        "hygiene/cleanliness",
        "term": "nights/late part-time/halftime permanent/lasting seasonal/temporary "
        "abroad/foreign "
        "remote/telework freelance/selfemployed trainee/apprentice",
    },
    {
        "vacancy": "we hire : {post} ( {term} ) , {skill} needed",
        "cv": "ten years as {post} , known for {skill} , looks for {term} work",
    },
)
