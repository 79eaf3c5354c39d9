import type { Knex } from 'knex'

/** How long a name that was released may not be ordered a certificate for, should its account set it again. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table domain_delays (
      hostname text not null,
      owner_id text not null,                      -- another account has not caused it
      orders_failed integer not null,
      order_at timestamptz not null,
      code text,
      message text,
      ends_at timestamptz not null,
      primary key (hostname, owner_id)
    );
    create index domain_delays_ends on domain_delays (ends_at);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
