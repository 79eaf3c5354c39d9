import type { Knex } from 'knex'

/** What an operator does to the platform itself belongs to no account; and what is on record is not written over. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table audit alter column account_id drop not null;
    create function audit_is_only_added_to() returns trigger language plpgsql as
      $$ begin raise exception 'the audit record is only added to'; end $$;
    create trigger audit_is_only_added_to before update on audit for each statement execute function audit_is_only_added_to();
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
