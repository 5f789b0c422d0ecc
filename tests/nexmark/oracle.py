"""The same questions in SQL, which DuckDB answers over all rows at once. Times are milliseconds since 1970."""

from __future__ import annotations

from tests.nexmark.generator import FIRST_CATEGORY
from tests.nexmark.queries import EURO, SKIP

IN_EUROS = f"price::decimal(12,0) * {EURO}"
TEN = 10_000
WINDOW = f'epoch_ms("at") // {TEN} * {TEN}'

ANSWERS = {
    "q0": 'select id, auction, bidder, price, channel, url, epoch_ms("at") as t, extra from bid',
    "q1": f'select id, auction, bidder, {IN_EUROS} as price, epoch_ms("at") as t from bid',
    "q2": f"select id, auction, price from bid where auction % {SKIP} = 0",
    "q3": f"""
        select name, city, state, a.id
        from auction a join person p on a.seller = p.id
        where category = {FIRST_CATEGORY} and state in ('OR', 'ID', 'CA')""",
    "q5": """
        with counted as (
            select (epoch_ms("at") // 2000 - back) * 2000 as start, auction, count(*) as num
            from bid, range(5) backs(back) group by all)
        select start, auction, num from counted
        where num >= (select max(num) from counted others where others.start = counted.start)""",
    "q7": f"""
        select start, id, auction, price, bidder
        from bid join (select {WINDOW} as start, max(price) as highest from bid group by 1)
        on price = highest and epoch_ms("at") between start and start + {TEN}""",
    "q8": f"""
        select id, name, p.start
        from (select distinct id, name, {WINDOW} as start from person) p
        join (select distinct seller, {WINDOW} as start from auction) a on id = seller and p.start = a.start""",
    "q11": f"""
        with bids as (select bidder, epoch_ms("at") as t from bid),
        pauses as (select *, t - lag(t) over (partition by bidder order by t) as pause from bids),
        stays as (select *, count(*) filter (pause is null or pause > {TEN})
                            over (partition by bidder order by t) as stay from pauses)
        select bidder, count(*) as bids, min(t) as start, max(t) + {TEN} as "end" from stays group by bidder, stay""",
    "q14": f"""
        select id, {IN_EUROS} as price,
               case when hour("at") between 8 and 18 then 'day' when hour("at") <= 6 or hour("at") >= 20 then 'night'
                    else 'other' end as kind,
               length(extra) - length(replace(extra, 'c', '')) as c
        from bid where {IN_EUROS} > 1000000 and {IN_EUROS} < 50000000""",
    "q20": f"""
        select b.id, b.auction, b.price, item, seller, epoch_ms(expires) as expires
        from bid b join auction a on b.auction = a.id where category = {FIRST_CATEGORY}""",
    "q21": r"""
        select id, channel,
               case lower(channel) when 'apple' then '0' when 'google' then '1' when 'facebook' then '2'
               when 'baidu' then '3' else nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') end as number
        from bid where number is not null""",
    "q22": """
        select id, split_part(url, '/', 4) as dir1, split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3
        from bid""",
}
