import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { storable } from '../../lib/storable-text.ts'
import { deploymentLogs } from '../../policy/apps/deployment-logs.ts'
import { outputCost } from '../../policy/apps/output-pace.ts'
import { newest } from '../containers/output.ts'

export interface DeploymentLog {
  /** Takes output. More is to be given when this has settled; it never rejects. */
  add(text: string): Promise<void>
  /** Writes what is left, and, when output was left out, how much of it, and its last lines. Never rejects. */
  close(): Promise<void>
}

/** Adds a text to the log while all of it stays within so many bytes; false when it had no room. */
export type AppendLog = (text: string, mostBytes: number) => Promise<boolean>

/**
 * Gathers output and writes it in order, with little of it in memory whatever happens: who prints waits for the database, and what
 * is past the log's size, or cannot be written, is left out.
 */
export function deploymentLog(append: AppendLog, limits = deploymentLogs): DeploymentLog {
  let pending = ''
  let pendingBytes = 0
  let last = ''
  let full = false
  let leftOut = 0
  let writing: Promise<void> | null = null
  let second = { begun: 0, bytes: 0 }

  async function write(): Promise<void> {
    const text = pending
    const bytes = pendingBytes
    hold('')
    try {
      if (await append(text, limits.outputBytes)) return
      full = true
      leftOut += bytes
    } catch {
      // Tried with the next one, as far as it is little.
      const kept = newest(text + pending, limits.pieceBytes)
      leftOut += bytes + pendingBytes - Buffer.byteLength(kept)
      hold(kept)
    }
  }

  function hold(text: string): void {
    pending = text
    pendingBytes = Buffer.byteLength(text)
  }

  /** Settles when what is being written now is. */
  function flush(): Promise<void> {
    if (!pending) return writing ?? Promise.resolve()
    writing ??= write().finally(() => {
      writing = null
    })
    return writing
  }

  async function keepPace(bytes: number): Promise<void> {
    const now = performance.now()
    if (now - second.begun >= 1000) second = { begun: now, bytes: 0 }
    second.bytes += bytes
    if (second.bytes >= limits.bytesPerSecond) await sleep(second.begun + 1000 - now)
  }

  const timer = setInterval(flush, limits.flushMs)
  return {
    async add(text) {
      const clean = storable(text)
      const bytes = Buffer.byteLength(clean)
      last = (last + clean).slice(-limits.lastCharacters)
      // Who does not wait is bounded too.
      if (full || pendingBytes > 2 * limits.pieceBytes) leftOut += bytes
      else {
        pending += clean
        pendingBytes += bytes
      }
      if (pendingBytes >= limits.pieceBytes) await flush()
      await keepPace(outputCost(Buffer.from(text)))
    },
    async close() {
      clearInterval(timer)
      await writing
      await flush()
      if (leftOut === 0) return
      const note = `\n[${leftOut} bytes of output are left out. The last lines:]\n${full ? last : ''}`
      await append(note, limits.wholeBytes).catch(ignoreError('a missing line of the log fails no deployment'))
    },
  }
}
