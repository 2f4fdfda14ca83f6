"""Fields of texts of daily work: flats, jobs, statutes, queries of databases, chats, addresses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement.first.fields import Field


@dataclass(frozen=True)
class Wordings(Field):
    """A field whose columns have several templates, parted by " | "; each row has its own."""

    def texts(self, rows: Sequence[tuple[str, ...]], column: int) -> list[str]:
        """Return the texts of rows in a column."""
        templates = list(self.columns.values())[column].split(" | ")
        return [
            templates[(len(row[0]) + len(row[-1])) % len(templates)].format(
                **self._words(row, column)
            )
            for row in rows
        ]

    def words(self) -> list[str]:
        """All that the field can say, for a vocabulary."""
        spoken = [
            word for entries in self.slots.values() for entry in entries.split()
            for word in entry.replace("_", " ").split("/")
        ]  # fmt: skip
        return [*spoken, *(template.replace("|", " ") for template in self.columns.values())]

    def answers(self, count: int, seed: int = 0, *, wrong: int = 1) -> dict[str, list[str]]:
        """Pairs and hard negatives, each of which differs in another slot."""
        table = self.table(count, seed)
        names = list(table)[:2]
        columns: dict[str, list[str]] = {"anchor": table[names[0]], "positive": table[names[1]]}
        rows = self.draws(count, seed)
        lists = [entries.split() for entries in self.slots.values()]
        draw, used = random.Random(seed + 3000), [set(row) for row in rows]
        for number in range(wrong):
            slot, changed = number % len(lists), []
            for row, words in zip(rows, used, strict=True):
                word = draw.choice([entry for entry in lists[slot] if entry not in words])
                words.add(word)  # so that no two negatives of a row are alike
                changed.append((*row[:slot], word, *row[slot + 1 :]))
            columns[f"negative_{number + 1}"] = self.texts(changed, 1)
        return columns


FLATS = Wordings(
    {
        "kind": "studio/one_room loft/open_plan villa/detached_house cottage/small_house "
        "penthouse/top_floor bungalow/single_storey duplex/two_levels basement/souterrain "
        "houseboat/floating_home castle/manor farmhouse/country_estate",
        "extra": "balcony/terrace pool/swimming garage/carport garden/lawn fireplace/chimney "
        "sauna/spa elevator/lift cellar/storage view/panorama solar/photovoltaic",
        "near": "station/commuters university/students hospital/nurses beach/surfers "
        "school/families airport/pilots forest/hikers centre/shoppers harbour/sailors",
        "price": "cheap/bargain luxury/upscale furnished/equipped renovated/modernised "
        "rustic/timbered bright/sunny quiet/calm",
    },
    {
        "search": "{price} {kind} {extra} near {near} | {kind} with {extra} , {price} , {near}",
        "advert": "for {near} : {price} {kind} to let , comes with {extra} , call after six | "
        "we offer a {kind} that is {price} and has a {extra} ; {near} will love it here",
    },
)
JOBS = Wordings(
    {
        "trade": "welder/metal_joining plumber/pipes_and_drains nurse/ward_care cook/kitchen_line "
        "teacher/classroom driver/lorry_routes accountant/ledger_closing lawyer/litigation "
        "gardener/hedges painter/facades programmer/backend_services librarian/catalogues "
        "butcher/meat_cutting optician/lenses",
        "skill": "welsh/cymraeg leadership/guiding_teams excel/spreadsheets safety/accident_rules "
        "sales/closing_deals statistics/regression_models first_aid/resuscitation "
        "planning/rosters negotiation/suppliers writing/reports",
        "form": "part_time/twenty_hours night/late_shifts remote/home_office "
        "seasonal/summer_months permanent/no_end_date trainee/apprentice "
        "freelance/own_invoice weekend/saturdays",
    },
    {
        "title": "{trade} ( {form} ) with {skill} | {form} {trade} , {skill} wanted",
        "resume": "for six years i did {trade} . my strengths are {skill} and patience . "
        "i look for {form} | candidate worked in {trade} , offers {skill} ; wishes : {form}",
    },
)
STATUTES = Wordings(
    {
        "deed": "parking/stationary_vehicles fishing/taking_of_fish hunting/pursuit_of_game "
        "burning/open_fires busking/street_performance dumping/disposal_of_waste "
        "camping/erection_of_tents flying/unmanned_aircraft trading/itinerant_sale "
        "swimming/bathing digging/excavation posting/fixing_of_bills grazing/pasturage",
        "place": "park/public_gardens riverbank/banks_of_waters market/market_square "
        "cemetery/burial_grounds bridge/crossings school/places_of_education "
        "harbour/quays forest/woodland monument/listed_objects tunnel/underpasses",
        "when": "at_night/between_ten_and_six in_winter/from_november_to_march "
        "on_sundays/on_days_of_rest in_drought/while_water_is_scarce "
        "at_festivals/for_the_time_of_a_fair in_snow/when_roads_are_covered",
    },
    {
        "question": "is {deed} allowed in the {place} {when} ? | "
        "may i do {deed} {when} , {place} ?",
        "law": "subject to the exemptions set out below , {deed} is prohibited in or beside "
        "{place} {when} ; whoever acts against this rule by intent or neglect commits an "
        "offence and is liable to a fine , and officers may remove things at the cost of the "
        "owner , without notice | no person shall , {when} , engage in {deed} upon any of the "
        "{place} within the borough unless the council has granted leave in writing ; leave "
        "is granted for one year at most and may be withdrawn at any time for good cause",
    },
)
QUERIES = Wordings(
    {
        "measure": "average/avg( total/sum( largest/max( smallest/min( number/count( "
        "spread/stddev(",
        "column": "salary/emp_pay age/birth_yr price/unit_cost weight/kg_net distance/km_len "
        "rating/star_val delay/late_min profit/gain_eur rainfall/mm_h2o",
        "table": "workers/hr_staff flights/air_legs books/lib_items patients/med_cases "
        "orders/shop_tx players/team_mem stations/geo_pts films/mov_list parcels/log_box",
        "group": "city/town_id month/cal_mm department/dept_no country/iso_cc colour/rgb_key "
        "owner/usr_fk brand/mk_name",
    },
    {
        "wish": "what is the {measure} {column} of {table} per {group} | "
        "show {table} : {measure} {column} for every {group}",
        "sql": "select {group} , {measure} {column} ) from {table} group by {group} ; | "
        "with t as ( select * from {table} ) select {measure} {column} ) , {group} from t "
        "group by 2 order by 1 desc ;",
    },
)
CHATS = Wordings(
    {
        "need": "lost_card/block_and_reissue late_train/compensation_form "
        "broken_screen/repair_slot double_charge/money_back wrong_size/exchange_label "
        "new_address/profile_update "
        "no_signal/reset_network forgot_pin/security_code cold_food/voucher_sent "
        "missing_bag/tracing_desk leaking_tap/technician_visit cancelled_show/rebook_seats",
        "mood": "angry/sorry_for_this polite/thanks_for_asking hurried/right_away "
        "confused/step_by_step joking/haha_good_one worried/do_not_worry",
        "channel": "app/mobile_menu website/browser_page phone/hotline_number letter/postal_form "
        "counter/branch_office email/inbox_link",
        "name": "anna/ms_a bruno/mr_b carla/ms_c dmitri/mr_d elena/ms_e farid/mr_f",
    },
    {
        "turns": "user : hi i am {name} ( {mood} ) bot : how can i help user : {need} , via "
        "{channel} | bot : welcome user : {need} ! bot : where ? user : {channel} , {name} {mood}",
        "reply": "{mood} , {name} ; {need} can be done in the {channel} | "
        "dear {name} , {mood} . please use the {channel} for {need}",
    },
)
_STREETS = (
    "station", "church", "mill", "castle", "garden", "king", "queen", "bridge", "market", "park",
    "river", "hill", "school", "rose", "oak",
)  # fmt: skip
_ENDS = {"street": "st", "avenue": "ave", "road": "rd", "lane": "ln", "square": "sq"}
_TOWNS = {
    "north york": "n yk", "south port": "s pt", "east ham": "e hm", "west brook": "w bk",
    "new castle": "nw cl", "old bury": "o by", "saint ives": "st iv", "upper field": "u fd",
}  # fmt: skip


def addresses(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Postal addresses as registered, and as people type them."""
    draw, rows = random.Random(seed), dict[tuple[str, str, int, str], None]()
    while len(rows) < count:
        row = (draw.choice(_STREETS), draw.choice([*_ENDS]), draw.randint(1, 39),
               draw.choice([*_TOWNS]))  # fmt: skip
        if (len(row[0]) + row[2]) % 4 == 0 if seed % 2 else (len(row[0]) + row[2]) % 4:
            rows[row] = None
    return {
        "registered": [f"{number} {name} {end} , {town}" for name, end, number, town in rows],
        "typed": [
            f"{_TOWNS[town]} {name} {_ENDS[end]} no. {number}" for name, end, number, town in rows
        ],
    }


def ticket_texts(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Tickets of a help desk with the number of their queue, each in many words."""
    queues = (
        "vpn tunnel wifi lan proxy", "laptop dock charger keyboard battery",
        "payslip bonus overtime tax pension", "badge door lock gate turnstile",
        "toner paper scanner tray duplex", "mailbox calendar outlook spam signature",
        "licence installer upgrade patch plugin", "backup restore archive quota snapshot",
    )  # fmt: skip
    users = ["finance", "sales", "legal", "warehouse", "reception", "board", "lab", "canteen"]
    faults = ["does not work", "is missing", "was changed", "needs approval", "runs out", "broke"]
    draw, table = random.Random(seed), {"text": list[str](), "label": list[int]()}
    while len(table["text"]) < count:
        label = draw.randrange(len(queues))
        segment, counterpart = draw.sample(queues[label].split(), 2)
        user, fault = draw.choice(users), draw.choice(faults)
        if (len(segment + user + fault) + len(counterpart)) % 4 == 0 if seed % 2 else (
            len(segment + user + fault) + len(counterpart)
        ) % 4:  # fmt: skip
            table["text"].append(
                f"{user} : the {segment} {fault} since monday , maybe the {counterpart}"
            )
            table["label"].append(label)
    return table
