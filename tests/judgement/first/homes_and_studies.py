"""Trades of homes and studies: flats to let, planets, music by mood, and letters to editors."""

from __future__ import annotations

from tests.judgement.first.trades_of_text import Trade

PROPERTY = Trade(
    {
        "home": "flat/apartment cottage/bungalow villa/mansion loft/attic studio/bedsit "
        "farmhouse/farmstead houseboat/barge terrace/rowhouse",
        "with": "garage/carport pool/swimming balcony/veranda fireplace/chimney cellar/basement "
        "garden/lawn sauna/steam lift/elevator",
        "near": "station/railway beach/ocean school/campus park/greenery market/shops "
        "hospital/clinic lake/waterside",
        "price": "cheap/affordable luxury/exclusive rented/tenancy shared/roommates "
        "auction/bidding",
    },
    {
        "search": (
            "{price} {home} with {with} near {near}",
            "{home} {near} {price} {with}",
            "we look for a {home} , {with} , {near} close by , {price}",
        ),
        "offer": (
            "charming {home} within minutes of the {near} . {with} , newly painted . {price}",
            "{price} : {home} for two or more . has a {with} and the {near} around the corner",
            "{near} area , {home} , {with} included , {price} , call after six",
        ),
    },
)
SPACE = Trade(
    {
        "body": "mars/martian venus/venusian jupiter/jovian saturn/ringed pluto/dwarf moon/lunar "
        "sun/solar mercury/innermost",
        "trait": "winds/atmospheric water/hydrated dust/particulate magnetism/dipole "
        "craters/impact volcanoes/magmatic gravity/mass",
        "by": "telescope/optical probe/spacecraft radar/echo rover/wheeled model/numerical "
        "spectrometer/emission",
        "aim": "age/dating origin/formation motion/dynamics heat/thermal chemistry/composition "
        "life/biology",
    },
    {
        "title": (
            "{trait} of {body} by {by} : what of {aim} ?",
            "a {by} study of {aim} and {trait} on {body}",
        ),
        "abstract": (
            "we report {by} data on {body} targets taken over three years . the {trait} signal is "
            "above the noise in all bands and sets new limits on {aim} that agree with theory",
            "little is known of {aim} in {body} science . with {by} work on {trait} terrain we "
            "narrow the range of answers",
        ),
    },
)
MUSIC = Trade(
    {
        "tool": "violin/fiddle organ/pipes oboe/reed harp/plucked cello/bowed tuba/brass "
        "lute/fretted drum/percussion",
        "mood": "sad/mournful merry/joyful angry/furious sleepy/lullaby proud/heroic holy/devout "
        "eerie/ghostly",
        "age": "baroque/bach romantic/chopin modern/atonal folk/traditional renaissance/byrd "
        "minimal/glass",
        "use": "wedding/bridal funeral/burial dinner/restaurant yoga/breathing march/parade "
        "school/pupils",
    },
    {
        "wish": (
            "{mood} {age} {tool} for a {use}",
            "i need {tool} for our {use} , {age} , rather {mood}",
            "{use} : {mood} pieces , {tool} , {age} ?",
        ),
        "piece": (
            "{age} suite no . four in d . {tool} solo . often heard at {use} , {mood} throughout",
            "{mood} andante with {tool} , {age} school , played at {use} services",
        ),
    },
)
LETTERS_TO_EDITORS = Trade(
    {
        "theme": "traffic/congestion taxes/levies noise/decibels schools/classrooms "
        "wolves/predators housing/rents litter/rubbish flights/aviation energy/turbines",
        "view": "support/favour reject/oppose doubt/question mock/ridicule fear/dread "
        "admire/praise",
        "writer": "farmer/agrarian widow/bereaved cyclist/bike grocer/shopkeeper nurse/hospital "
        "pensioner/retired",
        "town": "ghent/flanders basel/rhine cork/munster graz/styria malmo/scania tartu/estonia "
        "parma/emilia",
    },
    {
        "headline": (
            "{writer} from {town} : i {view} plans on {theme}",
            "{theme} in {town} , a {writer} writes to {view} them",
        ),
        "letter": (
            "sir , as {writer} reader of {town} soil i have watched the {theme} debate for years "
            "and {view} what the council has put before us",
            "dear editor , to {view} it takes little . the {theme} question will not go away in "
            "{town} . yours , one {writer} voice",
            "your piece on {theme} made me smile . {view} it we must . {writer} , {town}",
        ),
    },
)
