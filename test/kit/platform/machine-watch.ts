import { readdirSync, readFileSync } from 'node:fs'
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

/** Looks at every process of this machine and every container of some hosts again and again. */
export function watchMachine(hostIds: readonly string[]): MachineWatch {
  const [commands, environments, states] = [new Set<string>(), new Set<string>(), new Set<string>()]
  const outputs = new Map<string, string>()
  let stopped = false

  async function look(id: string): Promise<void> {
    const container = bareDocker.getContainer(id)
    const state = await container.inspect().catch(ignoreMissing)
    if (state) states.add(JSON.stringify({ ...state, State: undefined }))
    const output = state && (await container.logs({ stdout: true, stderr: true }).catch(ignoreMissing))
    if (output) outputs.set(id, output.toString('latin1'))
  }

  const lookAtProcesses = () => {
    for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
      commands.add(unlessEnded(`/proc/${pid}/cmdline`))
      environments.add(unlessEnded(`/proc/${pid}/environ`))
    }
  }

  const rounds = (async () => {
    while (!stopped) {
      lookAtProcesses()
      const filters = { label: [labels.host] }
      const list = (await bareDocker.listContainers({ all: true, filters: filters as never })).filter(({ Labels }) =>
        hostIds.includes(Labels[labels.host] ?? ''),
      )
      await Promise.all(list.map(({ Id }) => look(Id)))
      await sleep(roundMs)
    }
  })()

  return {
    commandLines: () => [...commands].join('\n'),
    environments: () => [...environments].join('\n'),
    containers: () => [...states].join('\n'),
    output: () => [...outputs.values()].join('\n'),
    count: () => outputs.size,
    async stop() {
      stopped = true
      await rounds
    },
  }
}

function unlessEnded(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // it has ended
  }
}

function ignoreMissing(error: { statusCode?: number }): undefined {
  // 409: it is being removed.
  if (error.statusCode !== 404 && error.statusCode !== 409) throw error
}
