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
      wanted text[] := array_remove(array[
        case when key_budget is not null then 'key/' || key end,
        case when platform_budget is not null then 'platform' end,
        'user/' || account], null);
      own ai_budgets;
      flight record;
      b record;
    begin
      -- Losing the last calls in a power failure is allowed; each refusal and slot is exact while Postgres runs.
      perform set_config('synchronous_commit', 'off', true);
      perform ai_lock_budgets(wanted, today);
      moment := coalesce(at, clock_timestamp());
      today := (moment at time zone 'UTC')::date;
      select * into own from ai_budgets where subject = 'user/' || account;

      select count(*) as calls, coalesce(sum(tokens), 0) as tokens,
             coalesce(sum(tokens) filter (where key_id = key), 0) as tokens_of_key
        into flight from ai_calls where user_id = account and ends_at > moment;

      if flight.calls >= slots then
        refusal := 'CONCURRENT_LIMIT_REACHED'; wait_seconds := 1; return;
      end if;
      if own.next_at > moment then
        refusal := 'RATE_LIMIT_EXCEEDED'; wait_seconds := extract(epoch from own.next_at - moment); return;
      end if;

      granted := answer;
      for b in
        select spent_code, busy_code, reserved, budget - case when day >= today then tokens else 0 end as unused
          from (values
            (1, 'key/' || key, key_budget, flight.tokens_of_key, 'DAILY_SPEND_LIMIT_REACHED', 'CONCURRENT_LIMIT_REACHED'),
            (2, 'user/' || account, account_budget, flight.tokens, 'DAILY_LIMIT_REACHED', 'CONCURRENT_LIMIT_REACHED'),
            (3, 'platform', platform_budget,
              case when platform_budget is not null then (select sum(tokens) from ai_calls where ends_at > moment) end,
              'DAILY_CAPACITY_REACHED', 'SERVER_OVERLOADED')
          ) s (place, subject, budget, reserved, spent_code, busy_code)
          join ai_budgets using (subject)
         where budget is not null
         order by place
      loop
        if b.unused - prompt < least(min_answer, answer) then
          refusal := b.spent_code; granted := null;
          wait_seconds := extract(epoch from (today + 1)::timestamp at time zone 'UTC' - moment);
          return;
        end if;
        -- What is missing is reserved by calls in flight, which may give it back.
        if b.unused - coalesce(b.reserved, 0) - prompt < least(min_answer, answer) then
          refusal := b.busy_code; granted := null; wait_seconds := 1; return;
        end if;
        granted := least(granted, b.unused - coalesce(b.reserved, 0) - prompt);
      end loop;

      update ai_budgets set next_at = moment + make_interval(secs => pacing_seconds) where subject = 'user/' || account;
      insert into ai_calls (id, user_id, key_id, subjects, tokens, next_at, started_at, ends_at)
        values (call_id, account, key, wanted, prompt + granted, moment + make_interval(secs => pacing_seconds), moment,
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
      select * into call from ai_calls where id = call_id;
      if not found then return false; end if;
      perform ai_lock_budgets(call.subjects, (call.started_at at time zone 'UTC')::date);
      delete from ai_calls where id = call_id;
      if not found then return false; end if;
      moment := coalesce(at, clock_timestamp());
      today := (moment at time zone 'UTC')::date;
      if prompt + completion = 0 then
        update ai_budgets set next_at = least(next_at, moment)
         where subject = 'user/' || call.user_id and next_at = call.next_at;
      else
        update ai_budgets
           set tokens = case when day >= today then tokens else 0 end + prompt + completion, day = greatest(day, today)
         where subject = any(call.subjects);
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
