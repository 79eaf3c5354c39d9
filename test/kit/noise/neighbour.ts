import type { TestUser } from '../actors/api.ts'
import type { Deployed, TestPlatform } from '../platform/platform.ts'
import { nodeProgram } from '../programs.ts'
import { zipOf } from '../zips.ts'

/** The previous version gets 5 s to answer its requests: the next deploy is of another application. */
const deployedInTurn = 4

/** What a neighbour does all day, each until it is done. Rejects when something has not its usual end. */
export async function neighbour(platform: TestPlatform, user: TestUser) {
  const as = platform.api.as(user)
  let version = 0
  const made: Deployed[] = []
  for (const text of ['commanded', ...Array(deployedInTurn).fill('deployed')])
    made.push(await platform.deploy(user, nodeProgram(text)))
  const [app, ...deployed] = made as [Deployed, ...Deployed[]]
  const command = async (verb: string) => {
    const answer = await as.post(`/v2/apps/${app.id}/${verb}`)
    if (answer.status !== 200) throw new Error(`${verb}: ${answer.status} ${answer.text}`)
  }
  const succeeded = async (operationId: string, what: string) => {
    const { state, code } = await platform.ended(operationId, 180)
    if (state !== 'success') throw new Error(`${what}: ${state} ${code}`)
  }
  return {
    stop: () => command('stop'),
    async start() {
      await command('start')
      await platform.serves(app.domain, 'commanded', 60)
    },
    async deploy() {
      const text = `version ${++version}`
      const { id, domain } = deployed[version % deployed.length]!
      const form = new FormData()
      form.append('file', new Blob([new Uint8Array(zipOf(nodeProgram(text).files))]), 'more.zip')
      const answer = await as.post(`/v2/apps/${id}/commit?restart=true`, form)
      if (answer.status !== 200) throw new Error(`commit: ${answer.status} ${answer.text}`)
      await succeeded(answer.headers.get('x-operation-id')!, 'the deploy')
      await platform.serves(domain, text, 60)
    },
    /** Leaves the application; give it to `remove`. */
    async upload(): Promise<Deployed> {
      const made = await platform.upload(user, nodeProgram('another one'))
      if (made.status !== 200) throw new Error(`upload: ${made.status} ${made.text}`)
      await succeeded(made.operationId, 'the creation')
      await platform.serves(made.domain, 'another one', 60)
      return made
    },
    async remove({ id }: Deployed) {
      const answer = await as.delete(`/v2/apps/${id}`)
      if (answer.status !== 200) throw new Error(`delete: ${answer.status} ${answer.text}`)
    },
  }
}

/** Milliseconds by what was done. */
export type Times = Record<'stop' | 'start' | 'deploy' | 'upload', number[]>

/** Measurements are separated by whether there was noise. */
export const noTimes = (): Times => ({ stop: [], start: [], deploy: [], upload: [] })

/** The 95th of a hundred. */
export const p95 = (times: readonly number[]): number =>
  times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.95) - 1]!

/** Does so many rounds of everything, one after the other, and adds how long each took. */
export async function timeRounds(
  acts: Awaited<ReturnType<typeof neighbour>>,
  rounds: number,
  times: Times,
): Promise<void> {
  const timed = async <T>(name: keyof Times, act: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    const value = await act()
    times[name].push(performance.now() - startedAt)
    return value
  }
  for (let n = 0; n < rounds; n++) {
    await timed('stop', acts.stop)
    await timed('start', acts.start)
    await timed('deploy', acts.deploy)
    await acts.remove(await timed('upload', acts.upload))
  }
}
