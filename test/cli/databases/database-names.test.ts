import test from 'ava'
import { databaseNameFindings } from '../../../cli/databases/database-names.ts'

const host = (n: number, domain: string | null, addresses: string[] | null = [`10.0.0.${n}`]) => ({
  ...{ id: `h${n}`, address: `10.0.0.${n}`, forgotten_at: null as Date | null },
  ...{ database_domain: domain, database_addresses: addresses },
})
const findings = async (hosts: ReturnType<typeof host>[], found: Record<string, string[]>) =>
  databaseNameFindings(hosts, async name => found[name.slice(name.indexOf('.') + 1)] ?? [])

test('hosts that share a domain are found, unless its names lead to each', async t => {
  const shared = [host(1, 'db.test'), host(2, 'db.test')]
  const [finding, ...others] = await findings(shared, { 'db.test': ['10.0.0.1'] })
  t.is(others.length, 0, 'names lead to the first one')
  t.deepEqual(finding, {
    name: 'Databases on h2',
    state:
      'NAMES DO NOT LEAD THERE: names in db.test, a domain that h1 has too, lead to 10.0.0.1: URLs of new databases have the address 10.0.0.2',
    remedy:
      'give h2 a DATABASE_DOMAIN of its own with a record *.<domain> that leads to this host, restart its process, and stop and start its databases',
  })
  t.deepEqual(
    (await findings(shared, { 'db.test': ['203.0.113.1'] })).map(({ name }) => name),
    ['Databases on h1', 'Databases on h2'],
  )
})

test('a domain of its own that leads to another host, or nowhere, is found; one that leads there is none', async t => {
  const own = [host(1, 'one.test'), host(2, 'two.test')]
  t.deepEqual(await findings(own, { 'one.test': ['10.0.0.1'], 'two.test': ['203.0.113.2'] }), [])
  const [astray, lost] = [
    await findings(own, { 'one.test': ['10.0.0.1'], 'two.test': ['10.0.0.1'] }),
    await findings(own, { 'one.test': ['10.0.0.1'] }),
  ]
  t.regex(astray[0]!.state, /names in two\.test lead to 10\.0\.0\.1: /)
  t.regex(lost[0]!.state, /names in two\.test lead nowhere: /)
  t.deepEqual([astray.length, lost.length], [1, 1])
})

test('databases of a host that others reach, published at its loopback address, are found', async t => {
  const [finding, ...others] = await findings([host(1, 'one.test'), host(2, 'two.test', ['127.0.0.1'])], {
    'one.test': ['10.0.0.1'],
    'two.test': ['10.0.0.2'],
  })
  t.like(finding, {
    name: 'Databases on h2',
    state: 'PUBLISHED AT 127.0.0.1 ONLY: programs elsewhere do not reach them',
  })
  t.regex(finding!.remedy!, /DATABASE_BIND of h2/)
  t.is(others.length, 0)
})

test('one host, forgotten ones and those of older versions are no finding', async t => {
  t.deepEqual(await findings([host(1, 'db.test')], {}), [])
  t.deepEqual(await findings([host(1, 'db.test'), { ...host(2, 'db.test'), forgotten_at: new Date() }], {}), [])
  t.deepEqual(await findings([host(1, 'db.test'), host(2, null, null)], { 'db.test': ['203.0.113.1'] }), [])
})
