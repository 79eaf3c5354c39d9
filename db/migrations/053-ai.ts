import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/**
 * Slots, pacing and budgets of the AI gateway. Both functions hold the rows of the budgets from the first look until the commit, always
 * in the same order, so that calls of any process are admitted one after the other. A call names the time only in tests.
 */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['api_keys', 'access exclusive']])
  await knex.raw(`
    -- Tokens per UTC day that a key may use; null = as many as its account.
    alter table api_keys add column ai_tokens_per_day bigint;

    create table ai_budgets (
      subject text primary key,                              -- user/<id>, key/<id>, platform
      day date not null,                                     -- UTC
      tokens bigint not null default 0,                      -- used on that day
      next_at timestamptz not null default '-infinity'       -- pacing: no call of this account before
    );

    create index ai_budgets_day on ai_budgets (day);

    -- Calls in flight. One whose process died holds its slot until ends_at.
    create table ai_calls (
      id text primary key,
      user_id text not null,
      key_id text,                                           -- null: by a session
      subjects text[] not null,                              -- budgets that it counts against, sorted
      tokens bigint not null,                                -- reserved in each
      next_at timestamptz not null,                          -- the pacing that it caused
      started_at timestamptz not null,
      ends_at timestamptz not null
    );
    create index ai_calls_user on ai_calls (user_id);
    create index ai_calls_end on ai_calls (ends_at);

    create table ai_days (
      user_id text not null,                                 -- no foreign key: settling must not wait for a change of the account
      key_id text not null,                                  -- '' = by a session
      day date not null,                                     -- UTC
      requests bigint not null default 0,
      prompt_tokens bigint not null default 0,
      completion_tokens bigint not null default 0,
      refusals jsonb not null default '{}',                  -- by code
      primary key (user_id, key_id, day)
    );
    create index ai_days_day on ai_days (day);

    -- One at a time: locking several in one statement would miss a row that another call has just made, and lock it after the next.
    create function ai_lock_budgets(wanted text[], today date) returns void language plpgsql as $$
    declare one text;
    begin
      foreach one in array array(select w from unnest(wanted) w order by w) loop
        loop
          perform 1 from ai_budgets where subject = one for update;
          exit when found;
          insert into ai_budgets (subject, day) values (one, today) on conflict do nothing;
        end loop;
      end loop;
    end $$;

    -- Admits a call, or returns the first refusal and after how many seconds it may be over. A refusal changes nothing.
    create function ai_admit(
      call_id text, account text, key text, prompt bigint, answer bigint, min_answer bigint,
      slots int, pacing_seconds float8, slot_seconds float8,
      account_budget bigint, key_budget bigint, platform_budget bigint, at timestamptz,
      out refusal text, out wait_seconds float8, out granted bigint
    ) language plpgsql as $$
    declare
      moment timestamptz;
      today date := (coalesce(at, clock_timestamp()) at time zone 'UTC')::date;
      subjects text[] := array['user/' || account];
      own ai_budgets;
      other ai_budgets;
      flight record;
      -- Of each budget, in the order in which refusals are told: its refusals, what is unused of its day, and what of that is reserved.
      spent_codes text[] := '{}'; busy_codes text[] := '{}'; unused bigint[] := '{}'; reserved bigint[] := '{}';
    begin
      -- Losing the last calls in a power failure is allowed; each refusal and slot is exact while Postgres runs.
      perform set_config('synchronous_commit', 'off', true);
      -- Sorted: the account comes last.
      if platform_budget is not null then subjects := array_prepend('platform', subjects); end if;
      if key_budget is not null then subjects := array_prepend('key/' || key, subjects); end if;
      if cardinality(subjects) > 1 then perform ai_lock_budgets(subjects, today); end if;
      loop
        select * into own from ai_budgets where subject = 'user/' || account for update;
        exit when found;
        insert into ai_budgets (subject, day) values ('user/' || account, today) on conflict do nothing;
      end loop;
      moment := coalesce(at, clock_timestamp());
      today := (moment at time zone 'UTC')::date;
      select count(*) as calls, coalesce(sum(tokens), 0) as tokens,
             coalesce(sum(tokens) filter (where key_id = key), 0) as tokens_of_key
        into flight from ai_calls where user_id = account and ends_at > moment;

      if flight.calls >= slots then
        refusal := 'CONCURRENT_LIMIT_REACHED'; wait_seconds := 1; return;
      end if;
      if own.next_at > moment then
        refusal := 'RATE_LIMIT_EXCEEDED'; wait_seconds := extract(epoch from own.next_at - moment); return;
      end if;

      if key_budget is not null then
        select * into other from ai_budgets where subject = 'key/' || key;
        spent_codes := array['DAILY_SPEND_LIMIT_REACHED']; busy_codes := array['CONCURRENT_LIMIT_REACHED'];
        unused := array[key_budget - case when other.day >= today then other.tokens else 0 end];
        reserved := array[flight.tokens_of_key::bigint];
      end if;
      spent_codes := spent_codes || 'DAILY_LIMIT_REACHED'::text; busy_codes := busy_codes || 'CONCURRENT_LIMIT_REACHED'::text;
      unused := unused || account_budget - case when own.day >= today then own.tokens else 0 end;
      reserved := reserved || flight.tokens::bigint;
      if platform_budget is not null then
        select * into other from ai_budgets where subject = 'platform';
        spent_codes := spent_codes || 'DAILY_CAPACITY_REACHED'::text; busy_codes := busy_codes || 'SERVER_OVERLOADED'::text;
        unused := unused || platform_budget - case when other.day >= today then other.tokens else 0 end;
        reserved := reserved || (select coalesce(sum(tokens), 0)::bigint from ai_calls where ends_at > moment);
      end if;

      granted := answer;
      for n in 1 .. cardinality(unused) loop
        if unused[n] - prompt < least(min_answer, answer) then
          refusal := spent_codes[n]; granted := null;
          wait_seconds := extract(epoch from (today + 1)::timestamp at time zone 'UTC' - moment);
          return;
        end if;
        -- What is missing is reserved by calls in flight, which may give it back.
        if unused[n] - reserved[n] - prompt < least(min_answer, answer) then
          refusal := busy_codes[n]; granted := null; wait_seconds := 1; return;
        end if;
        granted := least(granted, unused[n] - reserved[n] - prompt);
      end loop;

      if pacing_seconds > 0 then
        update ai_budgets set next_at = moment + make_interval(secs => pacing_seconds) where subject = 'user/' || account;
      end if;
      insert into ai_calls (id, user_id, key_id, subjects, tokens, next_at, started_at, ends_at)
        values (call_id, account, key, subjects, prompt + granted, moment + make_interval(secs => pacing_seconds), moment,
                moment + make_interval(secs => slot_seconds));
    end $$;

    -- Frees the slot, and charges what was generated. Nothing generated: the call is as if it had not been made. False: it was settled before.
    create function ai_settle(call_id text, prompt bigint, completion bigint, at timestamptz) returns boolean language plpgsql as $$
    declare
      moment timestamptz;
      today date;
      call ai_calls;
    begin
      perform set_config('synchronous_commit', 'off', true);
      -- Nobody waits for the row of a call while holding a budget.
      delete from ai_calls where id = call_id returning * into call;
      if not found then return false; end if;
      if cardinality(call.subjects) > 1 then
        perform ai_lock_budgets(call.subjects, (call.started_at at time zone 'UTC')::date);
      end if;
      moment := coalesce(at, clock_timestamp());
      today := (moment at time zone 'UTC')::date;
      if prompt + completion = 0 then
        update ai_budgets set next_at = least(next_at, moment)
         where subject = 'user/' || call.user_id and next_at = call.next_at;
      else
        insert into ai_budgets as b (subject, day, tokens)
          select s, today, prompt + completion from unnest(call.subjects) s order by s
          on conflict (subject) do update
            set tokens = case when b.day >= today then b.tokens else 0 end + excluded.tokens, day = greatest(b.day, today);
        insert into ai_days as d (user_id, key_id, day, requests, prompt_tokens, completion_tokens)
          values (call.user_id, coalesce(call.key_id, ''), today, 1, prompt, completion)
          on conflict (user_id, key_id, day) do update set requests = d.requests + 1,
            prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = d.completion_tokens + excluded.completion_tokens;
      end if;
      return true;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
