import type { Knex } from 'knex'

/** Rounds read what has changed since the last one, and what is due: nothing periodic reads every application. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The moment before which no round has to look whether an automatic snapshot is due.
    alter table apps add column snapshot_due_at timestamptz not null default now();
    create index apps_snapshot_due on apps (host_id, snapshot_due_at);

    -- Changes of the last minutes. The number is that of the transaction: the snapshot of a reader says which of them it cannot see
    -- yet, so a transaction that commits late is not missed. A crash empties both tables, as it may deal numbers again.
    create unlogged table app_changes (
      number bigint not null default pg_current_xact_id()::text::bigint,
      app_id text not null,
      host_id text not null,
      subdomain text not null default '',  -- empty = none
      at timestamptz not null default now(),
      primary key (number, app_id, host_id, subdomain)
    );
    create index app_changes_host on app_changes (host_id, number);
    create index app_changes_at on app_changes (at);
    create unlogged table app_change_epochs (
      single boolean primary key default true check (single),
      id uuid not null default gen_random_uuid(),
      swept bigint not null default 0      -- changes up to this number may be missing
    );

    create function note_app_change() returns trigger language plpgsql as $$
    begin
      if tg_op <> 'INSERT' then
        insert into app_changes (app_id, host_id, subdomain)
          values (old.id, old.host_id, coalesce(old.subdomain, '')) on conflict do nothing;
      end if;
      if tg_op <> 'DELETE' then
        insert into app_changes (app_id, host_id, subdomain)
          values (new.id, new.host_id, coalesce(new.subdomain, '')) on conflict do nothing;
      end if;
      return null;
    end $$;
    create trigger apps_changed after insert or delete on apps for each row execute function note_app_change();
    -- What neither the host watch nor the route keeper looks at is no change.
    create trigger apps_updated after update on apps for each row
      when ((old.host_id, old.subdomain, old.desired_state, old.status, old.release, old.container_id, old.host_port,
             old.host_address, old.started_at, old.boot_id)
        is distinct from
            (new.host_id, new.subdomain, new.desired_state, new.status, new.release, new.container_id, new.host_port,
             new.host_address, new.started_at, new.boot_id))
      execute function note_app_change();
    -- Also for rows that are loaded while triggers of the usual kind are off.
    alter table apps enable always trigger apps_changed, enable always trigger apps_updated;

    -- Who has paid has snapshots from then on. What is locked just now is looked at hours later.
    create function snapshots_due_now() returns trigger language plpgsql as $$
    begin
      update apps set snapshot_due_at = now() where id in (
        select id from apps where owner_id = new.id and snapshot_due_at > now() for no key update skip locked);
      return null;
    end $$;
    create trigger users_plan_changed after update on users for each row
      when ((old.plan, old.plan_ends_at, old.blocked_at) is distinct from (new.plan, new.plan_ends_at, new.blocked_at))
      execute function snapshots_due_now();
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
