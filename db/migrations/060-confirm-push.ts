import type { Knex } from 'knex'

/**
 * A confirmation waits for the application's row no longer than one attempt at it takes (`acceptance.tryMs`): one that nobody waits for
 * any more would keep its connection.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create or replace function confirm_push(of_app text, of_operation text) returns text language plpgsql as $$
    declare
      current_state text;
    begin
      perform set_config('lock_timeout', '900', true);
      perform 1 from apps where id = of_app and desired_state <> 'deleted' for update;
      if found then
        perform settle_deploy(of_operation);
      end if;
      select state into current_state from operations where id = of_operation;
      return current_state;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
