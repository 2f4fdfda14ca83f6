"""Fields of public texts: laws, phrase books, flats, commands, vacancies, trivia, patents."""

from __future__ import annotations

from tests.judgement.first.fields import Field

# A lay question, and the long article that answers it.
STATUTES = Field(
    {
        "who": "tenant/lessee landlord/lessor employee/worker parent/guardian driver/motorist "
        "heir/beneficiary neighbour/adjoiner shopkeeper/trader",
        "act": "evict/expel dismiss/terminate inherit/succeed build/erect sell/convey "
        "inspect/enter cancel/rescind sue/claim",
        "good": "house/dwelling dog/animal shop/premises garden/parcel car/vehicle will/testament "
        "fence/boundary debt/obligation",
        "when": "winter/season illness/incapacity strike/dispute war/emergency divorce/separation",
    },
    {
        "question": "may a {who} {act} because of a {good} during {when} ?",
        "article": "article . whoever as a {who} intends to {act} shall give notice in writing to "
        "the competent authority , stating the grounds . in so far as a {good} is concerned , the "
        "period is three months , and it does not run in a time of {when} . agreements to the "
        "contrary are void",
    },
)
# The same sentence in English and in Russian, in its own script.
PHRASEBOOK = Field(
    {
        "what": "ticket/билет soup/суп key/ключ map/карта towel/полотенце taxi/такси bread/хлеб "
        "doctor/врач room/номер umbrella/зонт",
        "place": "station/вокзал hotel/гостиница market/рынок harbour/порт museum/музей "
        "bridge/мост airport/аэропорт",
        "day": "today/сегодня tomorrow/завтра monday/понедельник friday/пятница sunday/воскресенье",
        "who": "husband/муж son/сын guide/гид group/группа grandmother/бабушка",
    },
    {
        "english": "{day} my {who} needs a {what} near the {place}",
        "russian": "{day} у {place} нужен {what} для {who}",
    },
)
# Titles of flats to let and what the advertisement says.
FLATS = Field(
    {
        "rooms": "studio/single two_room/double three_room/triple attic/loft basement/souterrain",
        "trait": "balcony/terrace garden/lawn fireplace/hearth parking/garage lift/elevator "
        "view/panorama piano/parquet sauna/spa",
        "quarter": "harbour/docks university/campus old_town/cathedral station/railway "
        "park/green factory/industrial river/quay hill/heights",
        "rent": "cheap/400 fair/700 usual/900 high/1400 luxury/2600",
    },
    {
        "title": "{rooms} flat {quarter} {trait} {rent}",
        "advertisement": "available at once : {rooms} apartment close to the {quarter} , with "
        "{trait} , {rent} euros a month plus heating , no pets",
    },
)
# What one wants to do in a terminal, and the command.
SHELL = Field(
    {
        "task": "find/find count/wc copy/cp delete/rm compress/gzip rename/mv compare/diff "
        "print/cat",
        "sort": "pictures/*.png scripts/*.py tables/*.csv notes/*.md archives/*.tar songs/*.ogg "
        "pages/*.html settings/*.ini",
        "place": "home/~ temporary/tmp root/sudo server/ssh backup/mnt shared/nfs trash/.trash",
        "how": "quietly/-q recursively/-r by_force/-f step_by_step/-i in_detail/-v",
    },
    {
        "wish": "how do i {how} {task} all {sort} in the {place} folder",
        "command": "$ {task} {how} {place} / {sort}",
    },
)
# Vacancies and lines of the lives of applicants.
VACANCIES = Field(
    {
        "post": "nurse/caregiver plumber/pipefitter chemist/laboratory translator/linguist "
        "accountant/ledgers gardener/horticulture chef/cuisine analyst/statistics pilot/aviation",
        "skill": "french/paris leadership/headed night_shifts/nights driving/licence "
        "teaching/tutored sales/sold writing/published programming/python",
        "grade": "junior/trainee senior/veteran part_time/hours interim/temporary",
        "town": "oslo/norway porto/portugal lyon/france gdansk/poland graz/austria ghent/belgium",
    },
    {
        "vacancy": "wanted : {grade} {post} in {town} with {skill}",
        "life": "six years of {post} , most recently {grade} ; {skill} ; at home in {town}",
    },
)
# Questions of a quiz and entries of an encyclopaedia.
TRIVIA = Field(
    {
        "kind": "river/stream painter/canvas planet/orbit battle/troops opera/libretto "
        "volcano/lava insect/larva treaty/signatories",
        "trait": "longest/length oldest/antiquity smallest/tiny famous/renowned forgotten/obscure "
        "disputed/controversial",
        "realm": "persia/iranian egypt/egyptian peru/andean japan/japanese iceland/icelandic "
        "sweden/swedish kenya/african",
        "age": "antiquity/bc middle_ages/medieval renaissance/1500s enlightenment/1700s "
        "present/2000s",
    },
    {
        "question": "which {trait} {kind} comes from {realm} and the {age} ?",
        "entry": "the {realm} {kind} , dated to the {age} , is known for being {trait} among "
        "scholars",
    },
)
# Abstracts of inventions and the claims, the longest texts.
PATENTS = Field(
    {
        "device": "valve/shutoff pump/impeller hinge/pivot battery/cell antenna/aerial lens/optic "
        "motor/rotor filter/membrane",
        "matter": "steel/alloy rubber/elastomer glass/silicate copper/conductor wood/cellulose "
        "ceramic/oxide",
        "use": "boats/marine cars/automotive kitchens/household hospitals/clinical farms/agrarian "
        "satellites/orbital",
        "gain": "noise/acoustic weight/mass cost/price wear/abrasion leaks/sealing heat/thermal",
    },
    {
        "abstract": "disclosed is a {device} made of {matter} for {use} that lowers {gain}",
        "claim": "what is claimed is : 1 . an apparatus comprising a housing and , arranged in the "
        "said housing , a {device} whose body consists at least in part of {matter} , wherein a "
        "first end is fastened to the frame and a second end is free to move . 2 . the apparatus "
        "of claim 1 , suited to {use} , characterised in that {gain} is diminished",
    },
)
# Weather in the short code of stations and in words.
FORECASTS = Field(
    {
        "sky": "clear/skc overcast/ovc broken/bkn scattered/sct foggy/fg hazy/hz",
        "fall": "rain/ra snow/sn drizzle/dz hail/gr thunderstorms/ts dry/nil",
        "wind": "northerly/360 easterly/090 southerly/180 westerly/270 variable/vrb calm/000",
        "heat": "freezing/m05 chilly/04 mild/13 warm/22 hot/33",
        "hour": "dawn/0500z noon/1200z dusk/1900z midnight/2400z",
    },
    {
        "sentence": "at {hour} it will be {heat} and {sky} , {fall} , with {wind} winds",
        "code": "{hour} {wind} 10kt {sky} {fall} {heat}",
    },
)
