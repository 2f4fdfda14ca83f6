"""Fields of paired texts: recipes, statutes, mails, SQL, runbooks, jobs, three scripts and more."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tests.judgement.first.fields import Field


class Varied(Field):
    """A field whose columns may have several templates, one a line; the row decides which."""

    def texts(self, rows: Sequence[tuple[str, ...]], column: int) -> list[str]:
        """Return the texts of rows in a column."""
        templates = list(self.columns.values())[column].split("\n")
        chosen = [zlib.crc32(f"{column}{row}".encode()) % len(templates) for row in rows]
        return [templates[number].format(**self._words(row, column))
                for number, row in zip(chosen, rows, strict=True)]  # fmt: skip


# A short name and long steps.
RECIPES = Varied(
    {
        "base": "lentil/pulses chicken/poultry salmon/fillet tofu/beancurd aubergine/eggplant "
        "barley/grains potato/tubers beef/mince",
        "way": "roasted/oven grilled/barbecue steamed/bamboo fried/skillet pickled/vinegar "
        "braised/dutch_oven",
        "spice": "cumin/seeds saffron/threads ginger/root garlic/cloves sumac/berries dill/fronds "
        "nutmeg/grated",
        "meal": "brunch/late_morning supper/evening picnic/outdoors feast/banquet snack/bite",
    },
    {
        "title": "{way} {base} with {spice} for {meal}\n{meal} : {spice} {base} , {way}\n"
        "our best {way} {base} ( {spice} ) - {meal}",
        "steps": "rinse the {base} well and pat it dry . rub it with oil , salt and {spice} . heat "
        "the {way} until very hot , lay everything in and wait twenty minutes . turn it once , "
        "taste , and serve at {meal} with lemon wedges and warm flat bread\n"
        "for {meal} . first crush {spice} in a bowl with oil . coat the {base} in it and let it "
        "rest over night . next day it goes {way} for half an hour until golden",
    },
)
# Questions of laymen and articles of a statute.
STATUTES = Varied(
    {
        "person": "tenant/lessee boss/employer driver/operator heir/successor seller/vendor "
        "pupil/minor landlord/lessor guest/lodger",
        "deed": "leave/terminate paint/alter refuse/decline record/register divide/apportion "
        "postpone/defer inspect/examine",
        "goods": "flat/dwelling wage/remuneration car/vehicle will/testament garden/premises "
        "contract/instrument fine/penalty",
        "span": "tomorrow/forthwith yearly/annually never/under_no_circumstances sunday/holiday",
    },
    {
        "question": "may a {person} {deed} the {goods} {span} ?\n{span} , can my {person} "
        "really {deed} a {goods}\nis it legal that the {person} will {deed} my {goods} {span} ?",
        "article": "art . ( {span} ) the {person} shall be entitled to {deed} the {goods} only "
        "where notice in writing has been served upon the other party and no overriding public "
        "interest stands in the way ; the court may grant relief in cases of hardship",
    },
)
# Addresses as people write them, and as a register keeps them.
ADDRESSES = Varied(
    {
        "number": "two/0002 seven/0007 eleven/0011 twenty/0020 forty/0040 sixty/0060 ninety/0090",
        "street": "rosewood/rswd milton/mltn harbour/hrbr station/sttn victoria/vctr abbey/abby "
        "chestnut/chsn",
        "kind": "lane/ln road/rd avenue/av square/sq crescent/cr",
        "town": "ashford/ASH dover/DOV ripon/RIP oban/OBN truro/TRO leeds/LDS",
    },
    {
        "written": "{number} {street} {kind} in {town} , united kingdom\n{town} , {street} "
        "{kind} {number}\nflat b , {number} {street} {kind} , {town}",
        "register": "gb | {town} | {street} {kind} | {number} | resid",
    },
)
# Functions of Python and their documentation.
FUNCTIONS = Varied(
    {
        "act": "read/open delete/unlink download/fetch compress/gzip encrypt/aes parse/loads "
        "rename/mv upload/put",
        "object": "table/csv picture/png setting/yaml message/smtp page/html track/wav "
        "archive/tar key/pem",
        "guard": "safely/try quickly/async silently/quiet repeatedly/retry lazily/yield",
        "place": "locally/disk remotely/s3 temporarily/tmpfs memory/ram",
    },
    {
        "docstring": "{guard} {act} a {object} {place} .\n{act} the given {object} {guard} ; "
        "it is kept {place}",
        "source": "def f ( p ) : with {place} ( p ) as h : {guard} : return {object} . {act} ( h )",
    },
)
# Questions of analysts and queries.
QUERIES = Varied(
    {
        "sum": "total/sum average/avg highest/max lowest/min number/count",
        "column": "revenue/rev_amt age/yrs distance/km salary/sal_eur weight/kg stock/qty",
        "table": "clients/t_cust trucks/t_veh shops/t_str nurses/t_stf flights/t_flt orders/t_ord",
        "where": "spain/es norway/no japan/jp chile/cl kenya/ke",
        "by": "month/mm weekday/dow branch/br gender/gn",
    },
    {
        "question": "what is the {sum} {column} of {table} in {where} per {by}\nshow me by {by} "
        "the {sum} {column} for all {table} from {where}\n"
        "{where} : {table} , {sum} {column} by {by} ?",
        "sql": "select {by} , {sum} ( {column} ) from {table} where cc = {where} group by {by}",
    },
)
# Alarms of machines and the pages of a runbook.
ALARMS = Varied(
    {
        "host": "web-a/frontend pg-1/postgres kfk-9/kafka rds-3/redis ing-2/ingress vpn-5/tunnel "
        "gpu-8/trainer",
        "metric": "cpu_98/processor mem_99/memory disk_95/filesystem lat_900/latency err_50/errors "
        "conn_0/connections lag_40k/backlog",
        "cause": "deploy/release cron/schedule cert/expiry leak/growth spike/traffic dns/lookup",
        "zone": "eu1/frankfurt us2/ohio ap3/tokyo sa1/paulo",
    },
    {
        "alarm": "crit {zone} {host} {metric} since {cause}",
        "page": "when the {host} in {zone} shows trouble with {metric} , check the latest {cause} "
        "first , then roll back and page the owner",
    },
)
# What applicants write of themselves, and titles of posts.
JOBS = Varied(
    {
        "craft": "accountant/ledgers welder/steel nurse/wards lawyer/briefs gardener/lawns "
        "pilot/cockpits barista/espresso tutor/lessons plumber/pipes",
        "rank": "junior/graduate senior/decade lead/team trainee/apprentice",
        "shift": "night/nocturnal weekend/saturdays remote/home parttime/twenty_hours",
        "city": "lyon/rhone porto/douro turin/po basel/rhine riga/daugava ghent/scheldt",
    },
    {
        "post": "{rank} {craft} ( {shift} ) {city}",
        "profile": "i have worked with {craft} as a {rank} and look for {shift} work by the "
        "{city}\n{city} based , {rank} , fond of {craft} . {shift} preferred",
    },
)
# Subjects of mails and the mails.
MAILS = Varied(
    {
        "matter": "budget/figures offsite/retreat contract/signature launch/golive visa/embassy "
        "payroll/salaries desk/seating survey/feedback",
        "state": "overdue/late approved/signed_off moved/rescheduled cancelled/called_off "
        "urgent/asap draft/preliminary",
        "team": "legal/counsel sales/account_managers design/artists finance/controllers "
        "support/agents",
    },
    {
        "subject": "{state} : {matter} ( {team} )\nre : {team} - {matter} {state}",
        "body": "dear all , a short note from the {team} about the {matter} , which is now "
        "{state} . please reply by friday noon if you see a problem . kind regards",
    },
)
# English sentences, with their French and Spanish.
PHRASES = Varied(
    {
        "animal": "dog/chien/perro cat/chat/gato horse/cheval/caballo cow/vache/vaca "
        "wolf/loup/lobo bear/ours/oso duck/canard/pato mouse/souris/raton",
        "deed": "eats/mange/come sees/voit/ve hides/cache/esconde brings/apporte/trae "
        "loses/perd/pierde finds/trouve/encuentra",
        "food": "milk/lait/leche cheese/fromage/queso apple/pomme/manzana meat/viande/carne "
        "egg/oeuf/huevo fish/poisson/pescado",
        "place": "forest/foret/bosque kitchen/cuisine/cocina bridge/pont/puente sea/mer/mar",
    },
    {
        "english": "the {animal} {deed} the {food} near the {place}",
        "french": "le {animal} {deed} la {food} pres de la {place}",
        "spanish": "el {animal} {deed} la {food} cerca de la {place}",
    },
)
# Russian questions and answers.
RUSSIAN = Varied(
    {
        "what": "поезд/вагон автобус/маршрут самолёт/рейс паром/причал трамвай/рельсы",
        "where": "москва/кремль казань/татарстан омск/сибирь сочи/море тверь/волга псков/крепость",
        "when": "утром/восемь днём/полдень вечером/двадцать ночью/полночь",
        "price": "дёшево/скидка дорого/бизнес бесплатно/льгота быстро/экспресс",
    },
    {
        "вопрос": "как {price} доехать : {what} {when} в город {where} ?",
        "ответ": "по тарифу {price} в {when} : {what} , {where} , места есть\n"
        "{where} , {what} отправляется в {when} часов , тариф {price} , билеты в кассе",
    },
)
# Japanese words of a shop and their descriptions, cut into words.
JAPANESE = Varied(
    {
        "ware": "傘/雨具 靴/履物 鞄/収納 時計/腕 茶碗/陶器 布団/寝具 包丁/刃物 筆/書道",
        "colour": "赤い/紅 青い/藍 白い/雪 黒い/墨 緑の/抹茶 黄色い/山吹",
        "user": "子供/小学生 父/紳士 母/婦人 祖母/高齢 学生/大学",
        "price": "安い/千円 高い/万円 中古/再生 新しい/最新",
    },
    {
        "検索": "{user} の {price} {colour} {ware}\n{ware} {colour} {price} {user}",
        "商品": "【 {colour} 】 {ware} 、 {user} 向け です 。 {price} で 送料 無料 。",
    },
)
# Turns of a chat.
CHATS = Varied(
    {
        "mood": "tired/rest bored/fun anxious/calm lonely/company hungry/food angry/breathe",
        "where": "train/commute office/work beach/holiday hospital/ward gym/workout library/study",
        "mate": "sister/sibling boss/manager neighbour/nextdoor girlfriend/partner coach/trainer",
        "ask": "film/movie walk/stroll song/playlist joke/pun game/quiz",
    },
    {
        "user": "ugh so {mood} at the {where} with my {mate} , got a {ask} ?\nhey ! my {mate} "
        "and me are {mood} , any {ask} for the {where} ?\n{where} again , {mood} as ever , a {ask} "
        "for me and my {mate} pls",
        "assistant": "sounds like you need {mood} ! since you are at {where} with your {mate} , "
        "how about a {ask} ?",
    },
)
# Headlines and their first sentences.
HEADLINES = Varied(
    {
        "who": "mayor/city_hall striker/goalscorer minister/cabinet singer/pop_star "
        "farmers/growers bank/lender hackers/intruders union/workers",
        "does": "quits/resigned wins/triumphed sues/lawsuit delays/postponed bans/prohibited "
        "praises/lauded",
        "what": "election/polls cup/trophy tax/levy album/record harvest/crops merger/takeover "
        "strike/walkout",
        "tone": "shock/unexpectedly finally/at_last again/once_more quietly/without_notice",
    },
    {
        "headline": "{tone} : {who} {does} {what}\n{who} {does} {what} {tone}",
        "lead": "in a statement on friday {tone} seen by our reporters , the {who} confirmed : "
        "{does} , and of the {what} little is left\n"
        "reuters - the {who} {does} on monday {tone} , and the {what} is now uncertain",
    },
)
