import type { Knex } from 'knex'

/** Purges that changes of files owe: a host that dies between a change and its purge leaves its row, and a round purges. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table owed_purges (
      app_id text not null references apps (id) on delete cascade,
      id text not null,
      due_at timestamptz not null,
      is_last boolean not null default false, -- a purge was done already, which may have come before the change
      primary key (app_id, id)
    );
    create index owed_purges_due on owed_purges (due_at);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
