import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { finished, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { labels } from '../../../activities/containers/port.ts'
import { bareDocker } from '../hosts/host-remains.ts'

/** What operators of a machine see of it, everything since the beginning. */
export interface MachineWatch {
  /** Arguments of every process that was seen, as text. */
  commandLines(): string
  /** Their environments. */
  environments(): string
  /** What the engine says of every container of these hosts. */
  containers(): string
  /** Their output. */
  output(): string
  /** Containers that were seen, those of short jobs included. */
  count(): number
  stop(): Promise<void>
}

const roundMs = 100

/** The environment of a process is that of its program: it is read in the first rounds in which its command line is as it is. */
const youngRounds = 3

/** Looks at every process of this machine and every container of some hosts again and again, and follows what these write. */
export function watchMachine(hostIds: readonly string[], docker = bareDocker): MachineWatch {
  const [commands, environments, states] = [new Set<string>(), new Set<string>(), new Set<string>()]
  const outputs: string[][] = []
  const following = new Map<string, { state: string; close(): void }>()
  let processes = new Map<string, { command: string; rounds: number }>()
  let stopped = false

  /** One request while the container runs: a look at each a few times a second costs the engine more than what it runs. */
  async function follow(id: string, state: string): Promise<void> {
    const ending = new AbortController()
    const followed = { state, close: () => ending.abort() }
    following.get(id)?.close()
    following.set(id, followed)
    const container = docker.getContainer(id)
    const info = await container.inspect().catch(ignoreLost)
    if (info) states.add(JSON.stringify({ ...info, State: undefined }))
    const options = { stdout: true, stderr: true, follow: true, abortSignal: ending.signal } as const
    const output = info && (await container.logs(options).catch(ignoreLost))
    if (!output) {
      followed.state = 'ended'
      return
    }
    docker.modem.demuxStream(output, newText(), newText())
    finished(output, error => {
      // A container that ended may run again already, which looks the same. What broke is followed again, from its beginning.
      if (error || state === 'running') followed.state = 'ended'
    })
  }

  /** A text of its own for what one container writes to one stream: the engine cuts it anywhere, and others write meanwhile. */
  function newText(): Writable {
    const pieces: string[] = []
    outputs.push(pieces)
    return new Writable({
      write(bytes: Buffer, _encoding, done) {
        pieces.push(bytes.toString('latin1'))
        done()
      },
    })
  }

  const lookAtProcesses = () => {
    const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
    const before = processes
    processes = new Map()
    for (const pid of pids) {
      const known = before.get(pid)
      // What has had no arguments all that time is a thread of the kernel.
      const command = known?.command === '' && known.rounds > youngRounds ? '' : unlessEnded(`/proc/${pid}/cmdline`)
      const rounds = known?.command === command ? known.rounds + 1 : 1
      processes.set(pid, { command, rounds })
      commands.add(command)
      if (rounds <= youngRounds) environments.add(unlessEnded(`/proc/${pid}/environ`))
    }
  }

  const watching = (async () => {
    while (!stopped) {
      lookAtProcesses()
      const filters = { label: [labels.host] }
      const list = (await docker.listContainers({ all: true, filters: filters as never })).filter(({ Labels }) =>
        hostIds.includes(Labels[labels.host] ?? ''),
      )
      const changed = list.filter(({ Id, State }) => following.get(Id)?.state !== State)
      await Promise.all(changed.map(({ Id, State }) => follow(Id, State)))
      await sleep(roundMs)
    }
  })()

  return {
    commandLines: () => [...commands].join('\n'),
    environments: () => [...environments].join('\n'),
    containers: () => [...states].join('\n'),
    output: () => outputs.map(pieces => pieces.join('')).join('\n'),
    count: () => following.size,
    async stop() {
      stopped = true
      await watching
      for (const { close } of following.values()) close()
    },
  }
}

const room = Buffer.alloc(1 << 16)

/** Several hundred files are read ten times a second: one call into the same room takes half the time of `readFileSync`. */
function unlessEnded(path: string): string {
  let descriptor: number | undefined
  try {
    descriptor = openSync(path, 'r')
    const length = readSync(descriptor, room, 0, room.length, null)
    return length < room.length ? room.toString('latin1', 0, length) : readFileSync(path, 'latin1')
  } catch {
    return '' // it has ended
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

function ignoreLost(error: { statusCode?: number; code?: string }): undefined {
  // 409: it is being removed.
  if (error.statusCode !== 404 && error.statusCode !== 409 && error.code !== 'ECONNRESET') throw error
}
