import type { Knex } from 'knex'

/** What was asked for and done, by whom: rows are only added, and swept when nobody may see them any more. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table audit (
      id bigint generated always as identity primary key,
      account_id text not null references users on delete cascade,  -- whose resource it was
      actor text not null,          -- user id, or 'operator:<name>'
      action text not null,         -- name of the endpoint or verb
      resource text,                -- id of the application or workspace
      result text not null,         -- success, or the code it ended with
      operation_id text,
      at timestamptz not null default now()
    );
    create index audit_account on audit (account_id, id desc);
    create index audit_actor on audit (actor, id desc);
    create index audit_at on audit (at);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
