import type { Knex } from 'knex'

/** What has ended can be deleted by its age, a batch at a time, without a look at the whole table. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create index operations_ended on operations (finished_at) where finished_at is not null;
    create index operations_newest on operations (seq);
    create index deployments_created on deployments (created_at);
    create index deployments_archives on deployments (created_at) where segment_id is not null;

    alter table deployments drop constraint deployments_superseded_by_fkey,
      add constraint deployments_superseded_by_fkey foreign key (superseded_by) references deployments on delete set null;
    create index deployments_superseded on deployments (superseded_by) where superseded_by is not null;

    alter table operations drop constraint operations_retry_of_fkey,
      add constraint operations_retry_of_fkey foreign key (retry_of) references operations on delete set null;
    create index operations_retried on operations (retry_of) where retry_of is not null;

    alter table operation_acts drop constraint operation_acts_operation_id_fkey,
      add constraint operation_acts_operation_id_fkey foreign key (operation_id) references operations on delete cascade;

    create index operation_acts_operation on operation_acts (operation_id, id);

    create index sessions_end on sessions (expires_at);
    create index mails_ended on mails (created_at) where state <> 'queued';
    create index uploads_ended on uploads (ended_at) where state <> 'open';
    create index shares_end on shares (least(expires_at, revoked_at));
    create index idempotency_keys_age on idempotency_keys (created_at);
    create index webhook_deliveries_age on webhook_deliveries (received_at);
    create index snapshots_age on snapshots (created_at);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
