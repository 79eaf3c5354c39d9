import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { answers, archiveForm, helloApp } from './kit/hello.ts'
import { liveMemory } from './kit/live-memory.ts'
import { type BenchPlatform, startPlatform } from './kit/platform.ts'
import { verdict } from './kit/sides.ts'

/**
 * A platform at steady work: applications are created, deployed, restarted, read and deleted, one after the other. Descriptors of each of our
 * processes are read between the rounds, and each minute the memory that is in use once garbage is collected. Of each third of the time the
 * least counts: the first third fills caches, and connections close when they like. Goals: less than 1 MB per hour from the second third to the
 * last, and 0 descriptors.
 */
const minutes = Number(process.argv[2] ?? 30)
const names = ['api', 'worker', 'host'] as const

const sampledEveryMs = 60_000

interface Sample {
  at: number
  megabytes: number
  descriptors: number
}

const platform = await startPlatform()
try {
  const pids = await Promise.all(names.map(name => platform.processId(name)))
  const samples: Sample[][] = names.map(() => [])
  const endsAt = performance.now() + minutes * 60_000
  let rounds = 0
  for (let sampledAt = Number.NEGATIVE_INFINITY; performance.now() < endsAt; rounds++) {
    await round(platform)
    if (performance.now() - sampledAt < sampledEveryMs) continue
    sampledAt = performance.now()
    await sleep(1000) // what a round has opened is closed
    for (const [index, pid] of pids.entries()) samples[index]!.push(await sampleOf(pid))
  }
  const still = await Promise.all(names.map(name => platform.processId(name)))
  console.log(`${rounds} rounds in ${minutes} minutes`)
  for (const [index, name] of names.entries()) {
    if (still[index] !== pids[index]) console.log(`  ${name.padEnd(8)} was started again: MISSED`)
    report(name, samples[index]!)
  }
} finally {
  await platform.stop()
}

async function round(target: BenchPlatform): Promise<void> {
  const app = await helloApp()
  const { id } = await target.json<{ id: string }>('POST', '/v2/apps', { body: archiveForm(app.archive) })
  await answers(target, app)
  await target.json('POST', `/v2/apps/${id}/commit`, { body: archiveForm(app.archive) })
  for (const path of ['', '/status', '/logs', '/metrics', '/deployments']) {
    await target.json('GET', `/v2/apps/${id}${path}`).catch(() => undefined) // what this plan or state has not
  }
  await target.json('POST', `/v2/apps/${id}/restart`)
  await target.json('POST', `/v2/apps/${id}/stop`)
  await target.json('DELETE', `/v2/apps/${id}`)
  await fetch(`${target.info.base_url}/v2/apps`, { method: 'POST', body: archiveForm(app.archive) }) // refused: no key
}

async function sampleOf(pid: number): Promise<Sample> {
  const descriptors = readdirSync(`/proc/${pid}/fd`).length
  return { at: performance.now(), megabytes: (await liveMemory(pid)) / 1_000_000, descriptors }
}

function report(name: string, samples: readonly Sample[]): void {
  const third = Math.floor(samples.length / 3)
  const least = (of: readonly Sample[], figure: 'megabytes' | 'descriptors') =>
    of.reduce((one, other) => (other[figure] < one[figure] ? other : one))
  const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)]
  const [from, to] = [least(middle, 'megabytes'), least(last, 'megabytes')]
  const perHour = (to.megabytes - from.megabytes) / ((to.at - from.at) / 3_600_000)
  const leaked = least(last, 'descriptors').descriptors - least(middle, 'descriptors').descriptors
  const memory = `${from.megabytes.toFixed(0)} to ${to.megabytes.toFixed(0)} MB, ${perHour.toFixed(1)} MB per hour`
  console.log(`  ${name.padEnd(8)} ${memory} (${verdict('less than 1', perHour < 1)})`)
  console.log(`  ${''.padEnd(8)} ${leaked} descriptors more (${verdict('0', leaked <= 0)})`)
}
