import type { Knex } from 'knex'

/**
 * Requests of several accounts are counted, and their calls of language models admitted and settled, by one statement: a busy process pays
 * for the transaction once. Calls are judged as by `ai_admit`, in the order in which they are given. `ai_admit` and `ai_settle` serve
 * processes of the version before until these are replaced. `lock_ms` limits the wait for a row that something else has locked.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The counters after the last of their requests. Rows are locked in one order over all processes.
    create function count_requests(keys text[], seconds float8[], requests int[], lock_ms int)
    returns table (key text, used int, window_ms float8, blocked_ms float8) language plpgsql as $$
    #variable_conflict use_column
    begin
      perform set_config('lock_timeout', lock_ms::text, true);
      return query
        insert into rate_limits as r (key, used, window_ends_at)
        select w.key, w.requests, now() + make_interval(secs => w.seconds)
          from unnest(count_requests.keys, count_requests.seconds, count_requests.requests) as w (key, seconds, requests)
         order by w.key collate "C"
        on conflict (key) do update set
          used = case when r.blocked_until > now() then 0 when r.window_ends_at <= now() then excluded.used
                      else r.used + excluded.used end,
          window_ends_at = case when r.window_ends_at <= now() then excluded.window_ends_at else r.window_ends_at end
        returning r.key, r.used,
          (extract(epoch from r.window_ends_at - now()) * 1000)::float8,
          coalesce(greatest(extract(epoch from r.blocked_until - now()) * 1000, 0), 0)::float8;
    end $$;

    -- One row for each call, in their order: the first refusal and after how many seconds it may be over, or the tokens of its answer.
    create function ai_admit_all(
      ids text[], accounts text[], keys text[], prompts bigint[], answers bigint[], slots int[], pacings float8[],
      account_budgets bigint[], key_budgets bigint[], platform_budget bigint, min_answer bigint, slot_seconds float8, at timestamptz,
      lock_ms int
    ) returns table (refusal text, wait_seconds float8, granted bigint) language plpgsql as $$
    declare
      moment timestamptz;
      today date := (coalesce(at, clock_timestamp()) at time zone 'UTC')::date;
      midnight float8;
      own ai_budgets;
      other ai_budgets;
      flight record;
      subjects text[];
      least_needed bigint;
      -- Reserved by the calls in flight of all accounts.
      of_platform bigint := 0;
      -- Of each budget, in the order in which they refuse: its refusals, what is unused of its day, and what of that is reserved.
      spent_codes text[]; busy_codes text[]; unused bigint[]; reserved bigint[];
    begin
      -- Losing the last calls in a power failure is allowed; each refusal and slot is exact while Postgres runs.
      perform set_config('synchronous_commit', 'off', true);
      perform set_config('lock_timeout', lock_ms::text, true);
      if cardinality(ids) = 1 then
        return query select * from ai_admit(ids[1], accounts[1], keys[1], prompts[1], answers[1], min_answer, slots[1], pacings[1],
          slot_seconds, account_budgets[1], key_budgets[1], platform_budget, at);
        return;
      end if;
      -- All of them before the first look, sorted: batches cannot wait for each other in a circle.
      perform ai_lock_budgets(array(
        select distinct subject from unnest(ids, accounts, keys, key_budgets) as c (id, account, key, key_budget),
          lateral (values ('user/' || account), (case when key_budget is not null then 'key/' || key end),
                          (case when platform_budget is not null then 'platform' end)) as s (subject)
         where subject is not null), today);
      moment := coalesce(at, clock_timestamp());
      today := (moment at time zone 'UTC')::date;
      midnight := extract(epoch from (today + 1)::timestamp at time zone 'UTC' - moment);

      if platform_budget is not null then
        select coalesce(sum(tokens), 0)::bigint into of_platform from ai_calls where ends_at > moment;
      end if;

      <<calls>>
      for n in 1 .. cardinality(ids) loop
        refusal := null; wait_seconds := null; granted := null;
        select * into own from ai_budgets where subject = 'user/' || accounts[n];
        select count(*) as calls, coalesce(sum(tokens), 0)::bigint as tokens,
               coalesce(sum(tokens) filter (where key_id = keys[n]), 0)::bigint as tokens_of_key
          into flight from ai_calls where user_id = accounts[n] and ends_at > moment;

        if flight.calls >= slots[n] then
          refusal := 'CONCURRENT_LIMIT_REACHED'; wait_seconds := 1; return next; continue;
        end if;
        if own.next_at > moment then
          refusal := 'RATE_LIMIT_EXCEEDED'; wait_seconds := extract(epoch from own.next_at - moment); return next; continue;
        end if;

        -- Sorted.
        subjects := array['user/' || accounts[n]];
        if platform_budget is not null then subjects := array_prepend('platform', subjects); end if;
        if key_budgets[n] is not null then subjects := array_prepend('key/' || keys[n], subjects); end if;
        spent_codes := array['DAILY_LIMIT_REACHED']; busy_codes := array['CONCURRENT_LIMIT_REACHED'];
        unused := array[account_budgets[n] - case when own.day >= today then own.tokens else 0 end];
        reserved := array[flight.tokens];
        if key_budgets[n] is not null then
          select * into other from ai_budgets where subject = 'key/' || keys[n];
          spent_codes := array_prepend('DAILY_SPEND_LIMIT_REACHED', spent_codes);
          busy_codes := array_prepend('CONCURRENT_LIMIT_REACHED', busy_codes);
          unused := array_prepend(key_budgets[n] - case when other.day >= today then other.tokens else 0 end, unused);
          reserved := array_prepend(flight.tokens_of_key, reserved);
        end if;
        if platform_budget is not null then
          select * into other from ai_budgets where subject = 'platform';
          spent_codes := spent_codes || 'DAILY_CAPACITY_REACHED'::text; busy_codes := busy_codes || 'SERVER_OVERLOADED'::text;
          unused := unused || platform_budget - case when other.day >= today then other.tokens else 0 end;
          reserved := reserved || of_platform;
        end if;

        granted := answers[n];
        least_needed := least(min_answer, answers[n]);
        for b in 1 .. cardinality(unused) loop
          if unused[b] - prompts[n] < least_needed then
            refusal := spent_codes[b]; wait_seconds := midnight;
          -- What is missing is reserved by calls in flight, which may give it back.
          elsif unused[b] - reserved[b] - prompts[n] < least_needed then
            refusal := busy_codes[b]; wait_seconds := 1;
          end if;
          if refusal is not null then
            granted := null; return next; continue calls;
          end if;
          granted := least(granted, unused[b] - reserved[b] - prompts[n]);
        end loop;

        if pacings[n] > 0 then
          update ai_budgets set next_at = moment + make_interval(secs => pacings[n]) where subject = 'user/' || accounts[n];
        end if;
        insert into ai_calls (id, user_id, key_id, subjects, tokens, next_at, started_at, ends_at)
          values (ids[n], accounts[n], keys[n], subjects, prompts[n] + granted, moment + make_interval(secs => pacings[n]), moment,
                  moment + make_interval(secs => slot_seconds));
        of_platform := of_platform + prompts[n] + granted;
        return next;
      end loop;
    end $$;

    -- Frees the slots, and charges what was generated. Nothing generated: the call is as if it had not been made. Returns the calls that
    -- were settled now; further ones were settled before.
    create function ai_settle_all(ids text[], prompts bigint[], completions bigint[], at timestamptz, lock_ms int)
    returns setof text language plpgsql as $$
    declare
      moment timestamptz;
      today date;
      calls ai_calls[];
    begin
      perform set_config('synchronous_commit', 'off', true);
      perform set_config('lock_timeout', lock_ms::text, true);
      if cardinality(ids) = 1 then
        if ai_settle(ids[1], prompts[1], completions[1], at) then return next ids[1]; end if;
        return;
      end if;
      -- No transaction waits for the row of a call while it holds a budget.
      perform 1 from ai_calls where id = any(ids) order by id for update;
      with deleted as (delete from ai_calls where id = any(ids) returning ai_calls)
        select array_agg(ai_calls) into calls from deleted;
      if calls is null then return; end if;
      perform ai_lock_budgets(array(select distinct s from unnest(calls) c, unnest(c.subjects) s),
                              (coalesce(at, clock_timestamp()) at time zone 'UTC')::date);
      moment := coalesce(at, clock_timestamp());
      today := (moment at time zone 'UTC')::date;

      update ai_budgets b set next_at = least(b.next_at, moment)
        from unnest(calls) c join unnest(ids, prompts, completions) as u (id, prompt, completion) using (id)
       where prompt + completion = 0 and b.subject = 'user/' || c.user_id and b.next_at = c.next_at;
      update ai_budgets b set tokens = case when b.day >= today then b.tokens else 0 end + used.tokens, day = greatest(b.day, today)
        from (select s as subject, sum(prompt + completion)::bigint as tokens
                from unnest(calls) c join unnest(ids, prompts, completions) as u (id, prompt, completion) using (id), unnest(c.subjects) s
               where prompt + completion > 0 group by s) used
       where b.subject = used.subject;
      insert into ai_days as d (user_id, key_id, day, requests, prompt_tokens, completion_tokens)
        select c.user_id, coalesce(c.key_id, ''), today, count(*), sum(prompt), sum(completion)
          from unnest(calls) c join unnest(ids, prompts, completions) as u (id, prompt, completion) using (id)
         where prompt + completion > 0 group by 1, 2 order by 1, 2
        on conflict (user_id, key_id, day) do update set requests = d.requests + excluded.requests,
          prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = d.completion_tokens + excluded.completion_tokens;
      return query select c.id from unnest(calls) c;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
