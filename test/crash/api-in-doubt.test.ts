import test from 'ava'
import { actors } from '../kit/actors/api.ts'
import { confirming, type Kind, KindRequest, storing } from '../kit/crash/commit-kit.ts'
import { ScriptedLanes } from '../kit/fakes/scripted-lanes.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { rows } from '../kit/rows/rows.ts'
import { type Loss, postgresLine } from '../kit/servers/postgres-line.ts'

const started = testPlatform({ hosts: {}, worker: false })

const deaths: [what: 'the commit' | 'what lets it begin', loss: Loss, kind: Kind][] = [
  ['the commit', 'lost', 'push'],
  ['the commit', 'answered', 'creation with a key'],
  ['what lets it begin', 'lost', 'creation with a key'],
  ['what lets it begin', 'answered', 'push'],
]

test('after an API is killed during a commit only confirmed operations start, and all others are undone', async t => {
  t.timeout(240_000)
  const platform = await started
  await rows(platform.db).host('h1', { memoryMb: 1_000_000 })
  await platform.db('hosts').update({ last_seen_at: '2100-01-01' })
  // Each has a process of its own, and creations take turns on the rows of the hosts.
  for (const [what, loss, kind] of deaths) {
    const line = await postgresLine(platform.base.url)
    const { api: entry, url } = await platform.startApiProcess({ DATABASE_URL: line.url })
    t.teardown(async () => {
      await entry.kill('SIGKILL')
      await line.close()
    })
    const api = { ...platform.api, ...actors(url), url, lanes: new ScriptedLanes(platform.db) }
    const request = await new KindRequest(kind, line, api).begin()
    const trap = what === 'the commit' ? storing(kind) : confirming(kind)
    const sprung = line.trap({ ...trap, manner: 'held', loss })
    const sent = t.throwsAsync(request.send(), undefined, `${kind}: nobody answers`)
    await sprung
    await entry.kill('SIGKILL')
    await sent
    // What it had sent arrives now.
    await line.release()
    Object.assign(api, actors(platform.api.url), { url: platform.api.url })
    if (what === 'the commit') await request.undone(t)
    else await request.done(t)
  }
})
