import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { listApps, Refused, uploadArchive } from '../../cli/client/client.ts'
import { answering, processNames, targetOf, testInstallation } from '../kit/platform/installation.ts'

const minutes = Number(process.env.CHAOS_MINUTES ?? 10)
const applications = 12
const platform = testInstallation()

/** A process is killed this long after the last one. */
const everyMs = { least: 2000, most: 7000 }

test('random kills: every application that was accepted answers in the end', async t => {
  t.timeout((minutes + 20) * 60_000)
  t.is((await platform.run('up', '--detach')).code, 0)
  const known = await platform.info()
  const target = targetOf(known)
  const answered: { id: string; domain: string }[] = []
  const inDoubt = new Set<string>()
  const refusals = new Set<string>()
  let going = true

  const uploads = (async () => {
    for (let number = 0; going; number++) {
      const zip = await platform.zipExample('hello-node', `chaos-${number}`)
      const { app } = await uploadArchive(target, zip).catch(error => {
        refusals.add(error instanceof Refused ? error.code : 'NO_ANSWER') // never promised, so nothing is owed
        return { app: null }
      })
      if (app?.domain) answered.push({ id: app.id, domain: app.domain })
      await sleep(answered.length < applications ? 500 : 10_000)
      const oldest = answered.length > applications ? answered[0] : undefined
      if (!oldest) continue
      const reply = await fetch(`${target.baseUrl}/v2/apps/${oldest.id}`, {
        method: 'DELETE',
        headers: { authorization: target.apiKey },
      }).catch(() => null)
      // A deletion whose answer was lost may have happened; only then may the application be missing.
      if (reply?.ok || (reply?.status === 404 && inDoubt.has(oldest.id))) answered.shift()
      else if (!reply || reply.status >= 500) inDoubt.add(oldest.id)
    }
  })()

  let kills = 0
  for (const end = Date.now() + minutes * 60_000; Date.now() < end; kills++) {
    const name = processNames[randomInt(processNames.length)] as string
    await platform.backAgain(name, platform.kill(name))
    await sleep(randomInt(everyMs.least, everyMs.most))
  }
  going = false
  await uploads
  t.log(`${kills} kills, ${answered.length} applications, refusals: ${[...refusals].join(' ') || 'none'}`)
  t.true(answered.length > 0)

  const silent: string[] = []
  for (const { domain } of answered) if (!(await answering(known, domain, 120)).startsWith('200')) silent.push(domain)
  t.deepEqual(silent, [])
  const there = new Set((await listApps(target)).map(({ id }) => id))
  t.deepEqual(
    answered.filter(({ id }) => !there.has(id)),
    [],
  )
})
