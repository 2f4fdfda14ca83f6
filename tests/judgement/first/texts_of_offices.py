"""Texts of offices, shops and the press: laws, addresses, headlines, jobs, flats, reviews."""

from __future__ import annotations

from tests.judgement.first.slots_of_texts import Kind

# A short question, and a long section of a law.
LAWS = Kind(
    {
        "who": "tenant/lessee landlord/lessor driver/motorist employer/company "
        "buyer/purchaser heir/successor student/pupil importer/consignee",
        "act": "parking/stationing smoking/tobacco noise/disturbance copying/reproduction "
        "dismissal/termination advertising/promotion fishing/angling hunting/game "
        "building/construction",
        "where": "station/railway forest/woodland school/educational harbour/port "
        "market/fair hospital/clinic airport/aerodrome",
        "penalty": "fine/pecuniary prison/custodial warning/admonition ban/exclusion",
    },
    {
        "question": ["may a {who} be given a {penalty} for {act} at the {where} ?",
                     "{act} at a {where} : can the {who} get a {penalty}"],
        "section": ["( 1 ) whoever as a {who} engages in {act} within {where} premises without the "
                    "written consent of the authority commits an offence . ( 2 ) the offence is "
                    "punished by {penalty} measures , unless the circumstances are exceptional",
                    "subject to article seven , {act} in {where} areas is prohibited . the {who} "
                    "concerned is liable to {penalty} sanctions under the schedule annexed hereto"],
    },
)  # fmt: skip
# An address as people type it, and as the register holds it.
ADDRESSES = Kind(
    {
        "street": "oak|oke/oak elm|elmm/elm maple|mapel/maple river|rivr/river high|hi/high "
        "church|chrch/church mill|mil/mill station|statn/station park|prk/park queen|qn/queen",
        "way": "st|str/street rd/road ave|av/avenue ln/lane sq/square",
        "number": "3/0003 12/0012 27/0027 48/0048 105/0105 211/0211 340/0340",
        "town": "lpool/liverpool mchester|manch/manchester bham/birmingham leeds/leeds "
        "brum/bromley yrk/york oxf/oxford cam/cambridge",
    },
    {
        "typed": ["{number} {street} {way} {town}", "{street} {way} no {number} , {town}"],
        "register": ["{town} | {street} {way} | {number} | gb"],
    },
)
# A headline, and how the report begins; the section of the paper is its class.
HEADLINES = Kind(
    {
        "section": "minister|senate|ballot/parliament striker|goalie|league/championship "
        "shares|bonds|bank/investors virus|vaccine|surgeon/physicians "
        "orbit|comet|rocket/astronomers opera|novel|painter/audiences",
        "verb": "soars/risen collapses/fallen returns/back surprises/unexpected "
        "resigns/stepped_down splits/divided",
        "city": "oslo/norwegian lima/peruvian cairo/egyptian delhi/indian seoul/korean "
        "dublin/irish quito/ecuadorian hanoi/vietnamese",
        "when": "overnight/hours_ago after_years/decade before_summer/june on_friday/weekend",
    },
    {
        "headline": ["{section} {verb} in {city} {when}", "{city} : {section} {verb} {when}"],
        "report": ["the {city} capital woke to news for {section} , who saw what had {verb} , "
                   "{when} , according to three sources close to the matter",
                   "{when} , {city} {section} spoke of a turn : {verb} , they said"],
    },
)  # fmt: skip
# A job advertisement, and the summary of a candidate.
JOBS = Kind(
    {
        "trade": "baker/pastry welder/metalwork nurse/wards pilot/cockpit "
        "teacher/classroom plumber/pipes lawyer/litigation florist/bouquets barber/haircuts",
        "level": "junior/graduate senior/decade trainee/apprentice lead/managed freelance/self",
        "skill": "excel/spreadsheets french/francophone driving/licence sales/negotiated "
        "planning/scheduled safety/accidents",
        "place": "rural/villages night/shifts abroad/expat remote/home onsite/commute",
    },
    {
        "advertisement": ["wanted : {level} {trade} ( {place} ) with {skill}",
                          "we hire a {level} {trade} , {skill} a plus , {place} work"],
        "summary": ["{skill} . {trade} . {level} . willing : {place}",
                    "my years with {trade} as {level} taught me {skill} ; {place} suits me"],
    },
)  # fmt: skip
# A flat that is sought, and an offer with numbers.
FLATS = Kind(
    {
        "rooms": "one/1_rm two/2_rm three/3_rm four/4_rm five/5_rm",
        "size": "tiny/28_sqm small/46_sqm roomy/83_sqm big/121_sqm huge/204_sqm",
        "rent": "cheap/450_eur fair/780_eur dear/1350_eur posh/2900_eur",
        "extra": "balcony/terrace garden/lawn garage/carport cellar/basement lift/elevator "
        "sauna/spa",
        "area": "centre/downtown suburb/outskirts lakeside/shore hill/slope campus/university",
    },
    {
        "wish": ["{rooms} bedroom flat , {size} and {rent} , {extra} , {area}",
                 "looking for a {rent} {size} place at the {area} : {rooms} rooms plus {extra}"],
        "offer": ["{area} | {rooms} | {size} | {rent} | {extra}"],
    },
)  # fmt: skip
# A review, and its rewording by somebody else; the first slot is the rating from worst to best.
REVIEWS = Kind(
    {
        "rating": "awful|disgusting|hated poor|weak|disappointing okay|average|fine "
        "good|nice|liked superb|perfect|loved",
        "aspect": "staff/service food/meal room/bed price/cost view/scenery wifi/internet "
        "parking/car pool/swim",
        "house": "hotel/inn hostel/dorm cabin/lodge resort/club boat/ship tent/camp",
        "guest": "couple/two family/kids group/friends alone/single business/work",
    },
    {
        "review": ["{rating} {aspect} at this {house} , came as {guest}",
                   "{guest} trip , {house} : {aspect} was {rating} !"],
        "other": ["as for {aspect} , we {guest} found the {house} {rating}"],
    },
)  # fmt: skip
# Tickets of a service desk, with a category of many words each.
TICKETS = Kind(
    {
        "category": "invoice|refund|charged|billing parcel|courier|tracking|delivered "
        "password|login|locked|reset screen|broken|cracked|warranty "
        "coupon|discount|promo|voucher gdpr|delete|privacy|consent slow|timeout|crash|outage "
        "size|colour|exchange|fit",
        "tone": "please hello urgent again finally still kindly sorry",
        "object": "order account app phone shoes tablet jacket website",
        "day": "today yesterday monday tuesday friday since_may twice last_week",
    },
    {"ticket": ["{tone} {object} {category} {day}", "{day} : my {object} - {category} , {tone}"]},
)
