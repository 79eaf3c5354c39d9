import test from 'ava'
import { resolverDns } from '../../../activities/dns/resolver.ts'
import { type Misbehaviour, TestDns } from '../../kit/servers/dns.ts'

let server: TestDns
test.before(async () => {
  server = await TestDns.start()
})
test.after.always(() => server?.stop())
const look = (...question: Parameters<ReturnType<typeof resolverDns>['look']>) =>
  resolverDns([server.address]).look(...question)

test.serial('records of every type are read', async t => {
  server.set('www.example.test', 'A', '192.0.2.1', '192.0.2.2')
  server.set('www.example.test', 'AAAA', '2001:db8::1')
  server.set('alias.example.test', 'CNAME', 'WWW.Example.test')
  server.set(
    'example.test',
    'CAA',
    '0 issue ca.example; validationmethods=dns-01',
    '128 issuewild ;',
    '0 iodef mailto:a@b.c',
  )
  server.set('_berth.example.test', 'TXT', ['berth-', 'verify=', '1'], 'another')
  t.deepEqual(await look('www.example.test', 'A'), { records: ['192.0.2.1', '192.0.2.2'] })
  t.deepEqual(await look('www.example.test', 'AAAA'), { records: ['2001:db8::1'] })
  t.deepEqual(await look('alias.example.test', 'CNAME'), { records: ['www.example.test'] })
  t.deepEqual(await look('alias.example.test', 'A'), { records: ['192.0.2.1', '192.0.2.2'] })
  t.deepEqual(await look('_berth.example.test', 'TXT'), { records: ['berth-verify=1', 'another'] })
  t.deepEqual(await look('example.test', 'CAA'), {
    records: ['0 issue ca.example; validationmethods=dns-01', '128 issuewild ;', '0 iodef mailto:a@b.c'],
  })
})

test.serial('a name that does not exist, and one without this type, have no records', async t => {
  server.set('only-a.example.test', 'A', '192.0.2.1')
  t.deepEqual(await look('only-a.example.test', 'TXT'), { records: [] })
  t.deepEqual(await look('nothing.example.test', 'TXT'), { records: [] })
  t.deepEqual(await look('nothing.example.test', 'CAA'), { records: [] })
})

test.serial('an answer that does not fit into a datagram is requested over TCP', async t => {
  const long = 'v'.repeat(300)
  const values = Array.from({ length: 12 }, (_, n) => [`${n}-`, long.slice(0, 250), long.slice(250)])
  server.set('_berth.large.test', 'TXT', ...values)
  const answer = await look('_berth.large.test', 'TXT')
  t.deepEqual(answer, { records: values.map(pieces => pieces.join('')) })
  t.deepEqual(
    server.questions.filter(({ name }) => name === '_berth.large.test').map(({ over }) => over),
    ['udp', 'tcp'],
  )
})

test.serial('a failure is not a missing record, and is reported in words', async t => {
  const rows: [how: Misbehaviour, words: RegExp][] = [
    ['SERVFAIL', /SERVFAIL/],
    ['REFUSED', /refused/],
    ['silence', /in time/],
  ]
  for (const [how, words] of rows) {
    server.misbehave('failing.test', how)
    const answer = await look('failing.test', 'TXT')
    t.regex('failed' in answer ? answer.failed : 'records', words, how)
  }
  server.misbehave('failing.test', null)
  t.deepEqual(await look('failing.test', 'TXT'), { records: [] })
  const closed = await TestDns.start()
  await closed.stop()
  const answer = await resolverDns([closed.address]).look('failing.test', 'A')
  t.true('failed' in answer)
  t.true('failed' in (await look('a..b', 'A')))
})

test.serial('a silent server is queried twice', async t => {
  server.misbehave('silent.test', 'silence')
  await look('silent.test', 'A')
  t.is(server.questions.filter(({ name }) => name === 'silent.test').length, 2)
})

test.serial('an answer is bounded: longer records are left out, and too many are no answer', async t => {
  server.set(
    'bounds.test',
    'TXT',
    ['x'.repeat(255), 'x'],
    Array.from({ length: 17 }, () => 'y'.repeat(255)),
  )
  t.deepEqual(await look('bounds.test', 'TXT'), { records: ['x'.repeat(256)] })
  const many = (count: number) => Array.from({ length: count }, (_, n) => String(n))
  server.set('bounds.test', 'TXT', ...many(100))
  t.deepEqual(await look('bounds.test', 'TXT'), { records: many(100) })
  server.set('bounds.test', 'TXT', ...many(101))
  t.regex(JSON.stringify(await look('bounds.test', 'TXT')), /more than 100 records/)
})

test.serial('of 300 concurrent queries none is lost, and a resolver gets 20 at a time', async t => {
  const names = Array.from({ length: 300 }, (_, n) => `n${n}.many.test`)
  for (const name of names) server.set(name, 'A', '192.0.2.9')
  const dns = resolverDns([server.address])
  let [running, most] = [0, 0]
  server.onQuestion = change => {
    running += change
    most = Math.max(most, running)
  }
  const answers = await Promise.all(names.map((name, n) => dns.look(name, 'A', `account ${n % 30}`)))
  server.onQuestion = undefined
  t.deepEqual(
    answers,
    names.map(() => ({ records: ['192.0.2.9'] })),
  )
  t.true(most > 1 && most <= 20, String(most))
})

test.serial(
  'silent name servers of one account delay nobody else, and a question waits 10 s at most for its turn',
  async t => {
    const names = Array.from({ length: 60 }, (_, n) => `n${n}.mute.test`)
    for (const name of names) server.misbehave(name, 'silence')
    server.set('quick.test', 'A', '192.0.2.9')
    const dns = resolverDns([server.address])
    const began = performance.now()
    const mute = names.map(name => dns.look(name, 'A', 'mallory'))
    t.deepEqual(await dns.look('quick.test', 'A', 'ana'), { records: ['192.0.2.9'] })
    t.true(performance.now() - began < 1000)
    const answers = await Promise.all(mute)
    t.true(answers.every(answer => 'failed' in answer))
    t.regex(JSON.stringify(answers.at(-1)), /too many questions/)
    t.true(performance.now() - began < 25_000)
  },
)
