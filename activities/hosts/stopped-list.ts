import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../../lib/folders/replace-file.ts'
import { type ContainerHost, labels } from '../containers/port.ts'

/**
 * The names of the containers that `berth down --apps` stops, in a file of their host. One that it has stopped and not removed, as when
 * the command was ended, would count as a program that has ended, and stay so.
 */
export interface StoppedList {
  read(): Promise<string[]>
  /** Replaces the list, whole or not at all; an empty one leaves no file. */
  write(names: readonly string[]): Promise<void>
}

/** The list in the folder of a host. An unreadable file counts as empty: what it named is then shown as ended. */
export function stoppedList(folder: string): StoppedList {
  const path = join(folder, 'stopped.json')
  return {
    async read() {
      const text = await readFile(path, 'utf8').catch(() => '[]')
      try {
        return JSON.parse(text) as string[]
      } catch {
        return []
      }
    },
    async write(names) {
      if (names.length === 0) return rm(path, { force: true })
      await mkdir(folder, { recursive: true, mode: 0o711 })
      await replaceFile(path, JSON.stringify(names))
    },
  }
}

/** Removes what was stopped and not removed, before a host compares its rows with containers: it creates what should run again. */
export async function removeStopped(
  engine: Pick<ContainerHost, 'list' | 'remove'>,
  hostId: string,
  list: StoppedList,
): Promise<void> {
  const stopped = new Set(await list.read())
  if (stopped.size === 0) return
  for (const { name, running } of await engine.list({ [labels.host]: hostId }))
    if (!running && stopped.has(name)) await engine.remove(name)
  await list.write([])
}
