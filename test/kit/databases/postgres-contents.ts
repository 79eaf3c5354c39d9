import type { Client, ClientConfig } from 'pg'
import type { EngineContainer } from './engine-container.ts'
import { postgresClient, postgresOptions } from './postgres-customer.ts'

/** The role of a customer's customer, and its password. */
export const reader = { name: 'Leser "ä"', password: 'of-the-reader' }

const weird = `"Größe ""x""\nnext line; \\\\ 'y' 日本"`

/** What a customer has in its database `default`: all that is easily lost. */
export const definitionsOfCustomer: readonly string[] = [
  `create role "Leser ""ä""" login password '${reader.password}' connection limit 7 valid until '2050-01-01'`,
  'create role team nologin noinherit',
  'grant team to "Leser ""ä""" with admin true, inherit false',
  `comment on role team is 'the ''team'''`,
  `alter role team set work_mem = '7MB'`,
  'create role maker createdb createrole login',
  'grant "Leser ""ä""" to "default" with inherit true, set true',
  'grant maker to "default" with inherit true, set true',
  'grant team to "default" with inherit true, set true',
  'create extension pg_trgm',
  'create schema tools',
  'create extension pgcrypto schema tools',
  `create schema ${weird}`,
  'create schema made authorization maker',
  `create type mood as enum ('sad', 'ok', 'with ''quote''')`,
  'create type pair as (one int, other text)',
  `create domain positive as int check (value > 0)`,
  'create type span as range (subtype = float8)',
  `create collation numeric_order (provider = icu, locale = 'en-u-kn-true')`,
  `create table ${weird}.${weird} (${weird} text primary key, "SELECT" int default 7, n numeric(30, 10), f float8, b bytea, j jsonb,
    m mood[], p pair, d positive, t timestamptz, i interval, r int4range, s span, a text collate numeric_order, money money, x xml)`,
  `create table cities (id bigint generated always as identity primary key, name varchar(40) not null,
    state varchar(10) default 'new' check (state in ('new', 'old')), twice bigint generated always as (id * 2) stored)`,
  'create table shops (id serial primary key, city bigint references cities on delete cascade deferrable initially deferred, doc tsvector)',
  'create index on shops using gin (doc)',
  `create index names on cities (lower(name)) where state <> 'old'`,
  `create index alike on cities using gin (name gin_trgm_ops)`,
  'create table nothing ()',
  'create table empty (n int)',
  'create unlogged table fast (n int)',
  'create table logs (at date, what text) partition by range (at)',
  `create table logs_2024 partition of logs for values from ('2024-01-01') to ('2025-01-01')`,
  'create table logs_rest partition of logs default',
  'create table moods (m mood, n int) partition by hash (m)',
  'create table moods_0 partition of moods for values with (modulus 2, remainder 0)',
  'create table moods_1 partition of moods for values with (modulus 2, remainder 1)',
  'create index on logs (at)',
  'create table parent (a int, b text)',
  'create table child (own int) inherits (parent)',
  'alter table parent add column c int default 3',
  'create table dropped (a int, gone text, b int)',
  'alter table dropped drop column gone',
  "create view of_cities with (security_barrier) as select name, state from cities where state in ('new', 'old') and id between 1 and 10",
  'create materialized view counts as select state, count(*) from cities group by state',
  'create unique index on counts (state)',
  'create sequence counter increment 5 start 100 cycle maxvalue 100000',
  'create sequence "Never used"',
  `create function checked(text) returns bool language plpgsql immutable as $$begin return length($1) < 100; -- 'x'
  end$$`,
  'create function total(a int, b int default 2) returns int language sql begin atomic select a + b; end',
  'create function note() returns trigger language plpgsql as $$begin return new; end$$',
  'create procedure nothing_done() language sql as $$select 1$$',
  'create aggregate product(int) (sfunc = int4mul, stype = int, initcond = 1)',
  'create operator === (leftarg = int, rightarg = int, function = int4eq)',
  'alter table cities add constraint short check (checked(name))',
  'create trigger notes before insert or update of name on cities for each row when (new.name is not null) execute function note()',
  'create rule keep as on delete to empty do instead nothing',
  'create statistics related on name, state from cities',
  'alter table shops enable row level security',
  'alter table shops force row level security',
  'create policy own on shops using (city <= 150) with check (true)',
  'create publication changes for table cities (id, name) where (id > 3)',
  `create text search configuration mine (copy = pg_catalog.english)`,
  `alter default privileges in schema tools grant select on tables to team`,
  `comment on column cities.name is 'of the city; ''quoted'''`,
  `comment on schema tools is 'of the customer'`,
  'grant select, update (name) on cities to team with grant option',
  'grant usage on schema tools to team',
  'revoke execute on function total from public',
  'grant create on schema public to "Leser ""ä"""',
  'alter table empty owner to "Leser ""ä"""',
  // An owner need not have the right any more that it needed to become one.
  'revoke create on schema public from "Leser ""ä"""',
]

export const rowsOfCustomer: readonly string[] = [
  `insert into ${weird}.${weird} select 'row' || g, g, g / 7.0, g / 3.0, decode(repeat('00ff', g), 'hex'), jsonb_build_object('a', g), array['sad', 'ok']::mood[],
    (g, 'x,"y"')::pair, g, '2024-02-29 12:00+02'::timestamptz + g * interval '1 day', g * interval '1 month 2 days', int4range(1, g + 1), '[1.5,2.5]',
    'a' || g, g::money, '<a>ä</a>' from generate_series(1, 50) g`,
  `insert into ${weird}.${weird} (${weird}, f) values ('', 'NaN'), (E'tab\\t newline\\n \\\\. backslash', '-Infinity'), ('null', null)`,
  `insert into cities (name) select 'city ' || g from generate_series(1, 3000) g`,
  "insert into shops (city, doc) select g, to_tsvector('english', 'the shop ' || g) from generate_series(1, 200) g",
  'insert into nothing default values',
  'insert into fast values (1), (2)',
  `insert into logs select '2024-06-01'::date + g, 'what ' || g from generate_series(1, 600) g`,
  `insert into moods select (array['sad', 'ok', 'with ''quote''']::mood[])[g % 3 + 1], g from generate_series(1, 30) g`,
  `insert into parent values (1, 'parent', 2)`,
  `insert into child values (1, 'child', 2, 3)`,
  'insert into dropped values (1, 2), (3, 4)',
  `select nextval('counter'), nextval('counter')`,
  `select lo_from_bytea(4711, decode(repeat('00ff10', 5000), 'hex'))`,
  `select lo_put(lo_create(4712), 10000, 'far')`,
  'refresh materialized view counts',
]

/** Works with a connection of the customer. */
export async function asCustomer<T>(
  { remote, secrets }: EngineContainer,
  work: (client: Client) => Promise<T>,
  change: ClientConfig = {},
) {
  const client = await postgresClient({ ...postgresOptions(remote, secrets().password), ...change })
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Runs statements on one connection of the customer. */
export const runAsCustomer = (
  database: EngineContainer,
  statements: readonly string[],
  change: ClientConfig = {},
): Promise<void> =>
  asCustomer(
    database,
    async client => {
      for (const statement of statements) await client.query(statement)
    },
    change,
  )

/** Functions that try to make their customer a superuser wherever Postgres calls them. */
export const hostileDefinitions: readonly string[] = [
  `create function hostile(text) returns bool language plpgsql as $$begin
    begin execute 'set session authorization berth_platform'; exception when others then null; end;
    begin execute 'reset session authorization'; exception when others then null; end;
    begin execute 'reset role'; exception when others then null; end;
    begin execute 'alter role "default" superuser'; exception when others then null; end;
    return true; end$$`,
  // What must be immutable cannot change roles itself, but what it calls can.
  'create function hidden(text) returns bool language plpgsql immutable as $$begin return public.hostile($1); end$$',
  'create domain checked as text check (public.hostile(value))',
  'create table first (a text check (public.hostile(a)), b bool generated always as (public.hidden(a)) stored, c checked)',
  'create index on first (public.hidden(a))',
  'create table cut (k checked) partition by list (k)',
  `create table cut_a partition of cut for values in ('a')`,
  `create table cut_rest partition of cut default`,
  "alter table cut_a add constraint always check (public.hostile('x'))",
  'create materialized view seen as select public.hostile(a) from first',
  "create function text_of(first) returns text language plpgsql as $$begin perform public.hostile('x'); return 'x'; end$$",
  'create cast (first as text) with function text_of(first) as implicit',
  `create type state as enum ('a', 'b')`,
  "create function key_of(state) returns text language plpgsql immutable as $$begin perform public.hidden('x'); return 'a'; end$$",
  'create cast (state as text) with function key_of(state) as implicit',
  'create table keys (k text primary key)',
  'create table uses (k state references keys)',
  "create view trap as select public.hostile('x') as a",
  `insert into first (a, c) values ('x', 'y')`,
  `insert into keys values ('a')`,
  `insert into uses values ('a')`,
  `insert into cut values ('a'), ('b')`,
]
