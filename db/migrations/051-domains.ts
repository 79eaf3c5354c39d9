import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Custom domains, certificates, and what each proxy has applied. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['apps', 'share row exclusive']])
  await knex.raw(`
    create table domains (
      hostname text primary key check (hostname = lower(hostname)),
      owner_id text references users,              -- null = a name of the platform itself
      proved_at timestamptz,
      unproved_since timestamptz,                  -- proved before, and no record of it has been seen since then
      txt_seen boolean not null default false,
      cname_seen boolean not null default false,
      points boolean not null default false,       -- requests for it arrive here
      delegated boolean not null default false,    -- its answers for certificates are asked of our own name server
      looks integer not null default 0,
      looked_at timestamptz,
      look_at timestamptz not null default now(),  -- when its workflow is due
      code text,                                   -- why it does not go on now
      message text,
      orders_failed integer not null default 0,    -- in a row
      order_at timestamptz not null default now(), -- no certificate is ordered before
      loss_mailed_at timestamptz,
      expiry_mails integer not null default 0,     -- mails about the end of the current certificate
      created_at timestamptz not null default now()
    );
    create index domains_due on domains (look_at);
    create index domains_owner on domains (owner_id);
    -- Applications that held a name before this table was there. Nothing could set one.
    update apps set custom_domain = null where custom_domain is not null;
    alter table apps add constraint apps_custom_domain foreign key (custom_domain) references domains on delete set null;
    create index apps_custom_domain on apps (custom_domain) where custom_domain is not null;

    create table domain_events (
      hostname text not null,
      seq bigint generated always as identity,
      at timestamptz not null default now(),
      text text not null,
      primary key (hostname, seq)
    );
    create index domain_events_at on domain_events (at);

    create table certificates (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      hostname text not null references domains on delete cascade,
      state text not null check (state in ('ordered', 'current')),
      authority text not null,
      order_url text,
      challenge text check (challenge in ('http-01', 'dns-01')),
      dns_value text,                              -- the answer of dns-01
      order_ends_at timestamptz,
      key_sealed bytea,
      csr bytea,
      chain text,                                  -- PEM, the leaf first
      issuer text,
      serial text,
      not_before timestamptz,
      not_after timestamptz,
      renew_at timestamptz,
      served_at timestamptz,                       -- every live proxy has it since
      created_at timestamptz not null default now(),
      check (state = 'ordered' or (chain is not null and key_sealed is not null and not_after is not null))
    );
    create unique index certificates_current on certificates (hostname) where state = 'current';
    create unique index certificates_ordered on certificates (hostname) where state = 'ordered';
    create index certificates_dns on certificates (dns_value) where dns_value is not null;

    create table certificate_orders (              -- places of the authority's own limits
      seq bigint generated always as identity primary key,
      registered text not null,
      at timestamptz not null default now()
    );
    create index certificate_orders_at on certificate_orders (at);

    create table acme_accounts (
      directory_url text primary key,
      url text,
      key_sealed bytea not null,
      created_at timestamptz not null default now()
    );

    create table edges (
      id text primary key,
      seen_at timestamptz not null default now(),
      applied pg_snapshot                          -- what this proxy has: every transaction that is visible in it
    );

    -- Names whose routing or certificate changed, as app_changes.
    create unlogged table domain_changes (
      number bigint not null default pg_current_xact_id()::text::bigint,
      hostname text not null,
      at timestamptz not null default now(),
      primary key (number, hostname)
    );
    create index domain_changes_at on domain_changes (at);
    create unlogged table domain_change_epochs (
      single boolean primary key default true check (single),
      id uuid not null default gen_random_uuid(),
      swept bigint not null default 0
    );
    create function note_domain(name text) returns void language plpgsql as $$
    begin
      if name is not null then
        insert into domain_changes (hostname) values (name) on conflict do nothing;
        perform pg_notify('domains', name);
      end if;
    end $$;
    create function note_domain_row() returns trigger language plpgsql as $$
    begin
      if tg_op <> 'INSERT' then perform note_domain(old.hostname); end if;
      if tg_op <> 'DELETE' then perform note_domain(new.hostname); end if;
      return null;
    end $$;
    create function note_domain_of_app() returns trigger language plpgsql as $$
    begin
      if tg_op <> 'INSERT' then perform note_domain(old.custom_domain); end if;
      if tg_op <> 'DELETE' then perform note_domain(new.custom_domain); end if;
      return null;
    end $$;
    create trigger domains_changed after insert or delete on domains for each row execute function note_domain_row();
    create trigger domains_updated after update on domains for each row
      when ((old.proved_at is null) is distinct from (new.proved_at is null)) execute function note_domain_row();
    create trigger certificates_changed after insert or delete on certificates for each row execute function note_domain_row();
    create trigger certificates_updated after update on certificates for each row
      when ((old.state, old.chain) is distinct from (new.state, new.chain)) execute function note_domain_row();
    create trigger apps_domain_changed after insert or delete on apps for each row execute function note_domain_of_app();
    create trigger apps_domain_updated after update on apps for each row
      when ((old.custom_domain, old.subdomain) is distinct from (new.custom_domain, new.subdomain))
      execute function note_domain_of_app();
    alter table domains enable always trigger domains_changed, enable always trigger domains_updated;
    alter table certificates enable always trigger certificates_changed, enable always trigger certificates_updated;
    alter table apps enable always trigger apps_domain_changed, enable always trigger apps_domain_updated;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
