import type { Knex } from 'knex'

/** What was asked for is begun only after the commit that stored it was answered. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table operations drop constraint operations_state_check;
    alter table operations add constraint operations_state_check
      check (state in ('accepting', 'queued', 'running', 'success', 'error', 'expired', 'cancelled'));
    -- Who waits for a command is told after this that nobody took it, so nobody may then.
    alter table operations add column claim_before timestamptz;
    create index operations_accepting on operations (created_at) where state = 'accepting';

    -- A creation that may still be undone: nobody sees it, its name and memory are reserved.
    alter table apps add column accepting boolean not null default false;

    alter table idempotency_keys
      add column claim text,            -- which of several first requests has it
      add column operation_id text;     -- what its answer speaks of
    create index idempotency_keys_operation on idempotency_keys (operation_id) where operation_id is not null;

    -- Newer deploys of a branch.
    create index deployments_release on deployments (app_id, release);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
