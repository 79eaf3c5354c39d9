import type { Knex } from 'knex'

/** All calls of language models lock the platform's budget: it comes last, so that none holds it while it waits for another one. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create or replace function ai_lock_budgets(wanted text[], today date) returns void language plpgsql as $$
    declare one text;
    begin
      foreach one in array array(select w from unnest(wanted) w order by w = 'platform', w) loop
        loop
          perform 1 from ai_budgets where subject = one for update;
          exit when found;
          insert into ai_budgets (subject, day) values (one, today) on conflict do nothing;
        end loop;
      end loop;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
