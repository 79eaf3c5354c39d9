import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'

// A process that puts a segment of a number of MiB: to be killed in the middle, or to print how far its memory grew.
const [folder, id, megabytes, pauseMs] = process.argv.slice(2)
const resident = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'latin1'))![1]) * 1024

async function* pieces() {
  for (let piece = 0; piece < Number(megabytes) * 16; piece++) {
    yield Buffer.alloc(64 * 1024, piece)
    if (Number(pauseMs)) await new Promise(resolve => setTimeout(resolve, Number(pauseMs)))
  }
}

const store = await filesystemStore(folder!)
// The thread that hashes bodies takes its memory once.
await store.put('a'.repeat(32), Readable.from([Buffer.alloc(1024 * 1024)], { objectMode: false }))
const before = resident()
await store.put(id!, Readable.from(pieces(), { objectMode: false }))
console.log(resident() - before)
