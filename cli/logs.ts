import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { KiB } from '../lib/bytes.ts'
import { ownDataDir } from './installation/installation.ts'

const tailBytes = 16 * KiB
const pollMs = 200

export function logsCommand(program: Command): void {
  program
    .command('logs')
    .argument('[part]', 'postgres, temporal, proxy, api, worker, host, supervisor, ...')
    .option('-f, --follow', 'print new lines as they arrive, until Ctrl-C')
    .action(async (part: string | undefined, { follow }: { follow?: boolean }) => {
      const folder = join(ownDataDir(process.env), 'logs')
      const parts = existsSync(folder)
        ? readdirSync(folder)
            .filter(name => name.endsWith('.log'))
            .map(name => name.slice(0, -4))
            .sort()
        : []
      if (parts.length === 0) throw new Error(`There are no logs in ${folder}. Start Berth with: berth up`)
      if (part && !parts.includes(part)) throw new Error(`There is no log of "${part}". Logs: ${parts.join(', ')}`)
      const wanted = part ? [part] : parts
      const offsets = new Map(wanted.map(name => [name, tailOf(folder, name)]))
      do {
        for (const name of wanted) print(folder, name, offsets, wanted.length > 1)
        if (follow) await sleep(pollMs)
      } while (follow)
    })
}

/** Offset in bytes where the last lines begin. */
function tailOf(folder: string, name: string): number {
  const from = sizeOf(folder, name) - tailBytes
  if (from <= 0) return 0
  const lineEnd = read(join(folder, `${name}.log`), from - 1, tailBytes).indexOf('\n')
  return from + Math.max(0, lineEnd)
}

function print(folder: string, name: string, offsets: Map<string, number>, named: boolean): void {
  const size = sizeOf(folder, name)
  let from = offsets.get(name) ?? 0
  if (size < from) from = 0 // the file was rotated
  if (size === from) return
  const text = read(join(folder, `${name}.log`), from, size - from).toString('utf8')
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  offsets.set(name, from + Buffer.byteLength(whole))
  for (const line of whole.split('\n').slice(0, -1)) console.log(named ? `${name.padEnd(12)} ${line}` : line)
}

function sizeOf(folder: string, name: string): number {
  return statSync(join(folder, `${name}.log`)).size
}

function read(path: string, from: number, length: number): Buffer {
  const file = openSync(path, 'r')
  const buffer = Buffer.alloc(length)
  const bytesRead = readSync(file, buffer, 0, length, from)
  closeSync(file)
  return buffer.subarray(0, bytesRead)
}
