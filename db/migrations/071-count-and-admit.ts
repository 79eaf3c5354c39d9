import type { Knex } from 'knex'

/**
 * The request of a call is counted by the statement that admits the call: a client that calls one after the other waits for one round trip to
 * Postgres less. Counters are locked before budgets; nothing that holds a budget waits for a counter.
 *
 * A plan that was made while a table was small is used on when it has grown: calls in flight leave dead rows, which it read from end to end. So
 * these functions, and those that they call, look rows up by index.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The counters after the last of their requests, then the calls in their order, without a key. No call is admitted if a counter
    -- refuses any of them: whose request that is, is judged outside.
    create function ai_count_and_admit_all(
      counters text[], seconds float8[], requests int[], allowed int[],
      ids text[], accounts text[], keys text[], prompts bigint[], answers bigint[], slots int[], pacings float8[],
      account_budgets bigint[], key_budgets bigint[], platform_budget bigint, min_answer bigint, slot_seconds float8, at timestamptz,
      lock_ms int
    ) returns table (
      key text, used int, window_ms float8, blocked_ms float8, refusal text, wait_seconds float8, granted bigint
    ) language plpgsql set enable_seqscan = off as $$
    declare
      refuses boolean := false;
    begin
      for key, used, window_ms, blocked_ms in select * from count_requests(counters, seconds, requests, lock_ms) loop
        refuses := refuses or blocked_ms > 0 or used > allowed[array_position(counters, key)];
        return next;
      end loop;
      if refuses then return; end if;
      -- As ai_admit_all does, without its settings, which are made: a call by itself waits for every step.
      if cardinality(ids) = 1 then
        return query
          select null::text, null::int, null::float8, null::float8, a.refusal, a.wait_seconds, a.granted
            from ai_admit(ids[1], accounts[1], keys[1], prompts[1], answers[1], min_answer, slots[1], pacings[1], slot_seconds,
                          account_budgets[1], key_budgets[1], platform_budget, at) a;
        return;
      end if;
      return query
        select null::text, null::int, null::float8, null::float8, a.refusal, a.wait_seconds, a.granted
          from ai_admit_all(ids, accounts, keys, prompts, answers, slots, pacings, account_budgets, key_budgets, platform_budget,
                            min_answer, slot_seconds, at, lock_ms) a;
    end $$;

    alter function ai_admit_all set enable_seqscan = off;
    alter function ai_settle_all set enable_seqscan = off;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
