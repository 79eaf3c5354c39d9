import type { Knex } from 'knex'

/** A host can be gone for good; an application tells which host went with its files, and what an undo could not take back. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table hosts add column forgotten_at timestamptz; -- an operator has said that it never comes back
    alter table apps
      add column lost_with text,       -- the forgotten host that had its files, until a snapshot is restored; null: they are there
      add column undo_failure text,    -- what a failed deploy has left changed, in words, until another one succeeds; null: nothing
      add column undo_failed_at timestamptz,
      add column undo_failed_by text;  -- the operation that has left it
    create index apps_unsettled on apps (host_id) where lost_with is distinct from host_id;

    alter table operation_acts drop constraint operation_acts_act_check,
      add constraint operation_acts_act_check check (act in ('retry', 'cancel', 'clear'));
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
