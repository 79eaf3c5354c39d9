import test from 'ava'
import { testApi } from '../../kit/actors/api.ts'
import { changes, stored } from '../../kit/crash/change-kit.ts'

const api = testApi()

/** Commands whose own commit has their entry. */
const recorded = Object.keys(changes).filter(name =>
  /^(workspaces\.|shares\.|apps\.unlink|apps\.webhook|account\.apikey)/.test(name),
)

for (const name of recorded)
  test.serial(`${name} is stored with its audit entry, or not at all`, async t => {
    const { db } = api()
    const ana = await api().makeUser({ plan: 'pro-12' })
    const ask = await changes[name]!(api(), ana)
    const before = await stored(db)
    await db.raw(`
      create function no_entry() returns trigger language plpgsql as $$ begin raise exception 'no space'; end $$;
      create trigger no_entry before insert on audit for each row execute function no_entry()`)
    const refused = await ask()
    await db.raw('drop trigger no_entry on audit; drop function no_entry()')
    t.is(refused.status, 500, refused.text)
    t.deepEqual(await stored(db), before)
    const entries = async () => (await db('audit').where({ account_id: ana.id, action: name }).select('result')).length
    const earlier = await entries()
    t.regex(String((await ask()).status), /^20[01]$/)
    t.is((await entries()) - earlier, 1)
    t.notDeepEqual(await stored(db), before)
  })
