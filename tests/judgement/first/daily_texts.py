"""Fields of texts of every day: news, chats, homes, weather, birds, forums, matches."""

from __future__ import annotations

from tests.judgement.first.fields import Field

HEADLINES = Field(
    {
        "who": "minister/politician banker/financier singer/musician striker/footballer "
        "bishop/cleric "
        "actor/hollywood general/military mayor/municipal author/novelist pilot/captain",
        "did": "resigns/quit arrested/custody wins/triumph injured/hospital marries/wedding "
        "sued/court vanishes/missing apologises/sorry",
        "over": "tax/levy affair/scandal storm/hurricane vote/ballot leak/disclosure "
        "strike/walkout "
        "fraud/deceit bribe/corruption",
        "where": "paris/france tokyo/japan cairo/egypt lima/peru oslo/norway delhi/india",
    },
    {
        "headline": "{who} {did} over {over} in {where}",
        "body": "( reuters ) - the {who} at the centre of the {over} story has made news in "
        "{where} again , after word of {did} was given to the press late on monday",
    },
)
CHATS = Field(
    {
        "mood": "sad/comfort angry/soothe bored/amuse hungry/feed tired/rest lonely/company "
        "nervous/breathe excited/celebrate jealous/trust",
        "cause": "exam/studying boss/office ex/breakup rain/umbrella train/ticket flat/rent "
        "dog/vet phone/battery party/dancing match/team",
        "when": "rn/now tmrw/tomorrow tonite/evening l8r/afterwards 2day/today wkend/saturday",
        "pal": "bro/brother sis/sister mum/mother dude/friend babe/darling mate/buddy",
    },
    {
        "turn": "{pal} im so {mood} bc of the {cause} {when} lol",
        "reply": "aw {pal} , {mood} you {when} , the {cause} will be fine",
    },
)
HOMES = Field(
    {
        "kind": "flat/apartment house/villa studio/bedsit barn/farm loft/attic cabin/chalet "
        "castle/manor houseboat/barge",
        "near": "school/pupils sea/coast metro/underground woods/trees airport/runway park/lawn "
        "university/campus vineyard/wine",
        "with": "pool/swimming garage/parking balcony/terrace fireplace/chimney cellar/basement "
        "lift/elevator sauna/steam garden/backyard",
        "for": "family/four couple/two students/shared retired/senior artists/creative",
    },
    {
        "search": "{kind} with {with} near {near} for {for}",
        "listing": "bright {kind} , {for} people , {with} , five minutes to {near} , call now !",
        "tweet": "just saw a {kind} near {near} #{for} #{with}",
    },
)
WEATHER = Field(
    {
        "sky": "sunny/clr cloudy/ovc rainy/ra snowy/sn foggy/fg hail/gr thunder/ts drizzle/dz",
        "wind": "north/360 east/090 south/180 west/270 calm/000 gusty/vrb northeast/045 "
        "southwest/225",
        "heat": "freezing/m05 cold/02 mild/12 warm/22 hot/33 scorching/41",
        "air": "london/egll paris/lfpg rome/lirf oslo/engm madrid/lemd vienna/loww athens/lgav",
    },
    {
        "forecast": "tomorrow in {air} it will be {sky} and {heat} with {wind} wind",
        "metar": "{air} 121200z {wind} kt {sky} {heat}",
    },
)
BIRDS = Field(
    {
        "size": "tiny/9cm small/14cm medium/25cm large/60cm huge/110cm",
        "back": "blue/azure red/scarlet grey/slaty black/sooty green/verdant brown/russet "
        "white/snowy yellow/lemon",
        "bill": "hooked/raptorial long/probing short/stubby curved/decurved flat/spatulate "
        "thick/conical",
        "home": "reeds/marsh cliffs/crags gardens/suburban woods/forest desert/arid "
        "lakes/freshwater "
        "ocean/pelagic fields/arable",
        "song": "whistle/fluting croak/hoarse trill/rattling hoot/hollow scream/shrill mute/silent",
    },
    {
        "seen": "saw a {size} {back} bird with a {bill} bill near {home} it made a {song}",
        "guide": "{size} . {back} above , bill {bill} . voice {song} . habitat {home} .",
    },
)
FORUM = Field(
    {
        "lang": "python/py javascript/js rust/rs haskell/hs kotlin/kt fortran/f90 ruby/rb matlab/m",
        "topic": "threads/concurrency strings/text dates/datetime plots/graphics sockets/network "
        "tests/unittest classes/oop loops/iteration sorting/algorithms parsing/grammar",
        "trouble": "slow/performance crash/segfault leak/memory import/packaging typo/syntax "
        "deadlock/locking overflow/integer unicode/encoding",
    },
    {
        "post": "hi all , my {lang} code about {topic} has a problem : {trouble} , any ideas ? "
        "thanks",
        "tags": "{trouble} {lang} {topic}",
    },
)
MATCHES = Field(
    {
        "home": "lions/leo bears/ursa hawks/falco sharks/squalus wolves/lupus bulls/taurus "
        "foxes/vulpes "
        "eagles/aquila",
        "away": "kings/royal pirates/corsair saints/holy rockets/orbit giants/titan knights/armour "
        "miners/coal vikings/norse",
        "score": "1-0/narrow 5-0/thrashing 2-2/draw 0-3/defeat 4-3/thriller 0-0/goalless",
        "crowd": "rain/wet snow/white sun/bright fog/misty wind/stormy",
    },
    {
        "result": "{home} v {away} {score} ( {crowd} )",
        "report": "a {crowd} day saw the {home} side meet {away} in a {score} for the fans",
    },
)
