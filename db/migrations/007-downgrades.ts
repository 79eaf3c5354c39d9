import type { Knex } from 'knex'

/** Steps down to the next lower plan that somebody has asked for, and when plans end. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The code itself stands nowhere: it derives from the id.
    create table downgrades (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      user_id text not null references users on delete cascade,
      plan_from text not null,
      plan_to text not null,
      state text not null default 'pending' check (state in ('pending', 'confirmed', 'applied', 'refused', 'expired')),
      attempts integer not null default 0,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null,       -- of the code
      confirmed_at timestamptz,
      ended_at timestamptz
    );
    create unique index downgrades_open on downgrades (user_id) where state in ('pending', 'confirmed');
    create index downgrades_ended on downgrades (ended_at) where ended_at is not null;

    create index users_plan_end on users (plan_ends_at) where plan_ends_at is not null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
