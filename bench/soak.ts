import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { answers, archiveForm, helloApp } from './kit/hello.ts'
import { type BenchPlatform, startPlatform } from './kit/platform.ts'
import { verdict } from './kit/sides.ts'

/**
 * A platform at steady work: applications are created, deployed, restarted, read and deleted, one after the other. Memory and descriptors
 * of each of our processes are read between the rounds; of each third of the time the least counts, because garbage is collected and
 * connections close when they like, and the first third fills caches. Goals: less than 1 MB per hour from the second third to the
 * last, and 0 descriptors.
 */
const minutes = Number(process.argv[2] ?? 30)
const names = ['api', 'worker', 'host'] as const

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
  for (; performance.now() < endsAt; rounds++) {
    await round(platform)
    await sleep(1000) // what a round has opened is closed
    for (const [index, pid] of pids.entries()) samples[index]!.push(sampleOf(pid))
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

function sampleOf(pid: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kilobytes = Number(/^RssAnon:\s+(\d+)/m.exec(status)![1])
  return {
    at: performance.now(),
    megabytes: (kilobytes * 1024) / 1_000_000,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  }
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
