import { appendFileSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import test, { registerCompletionHandler } from 'ava'
import { checkout } from './command.ts'
import { closesAll, leftOpen } from './left-open.ts'

// Tests and their clean-up are over: what is open now would stay open in the product too. Closing may take a moment to complete.
// The process is ended all the same, because the native core of the workflow library has threads that end when they like.
registerCompletionHandler(async () => {
  const { file } = test.meta
  const isStrict = closesAll(file)
  const left = await leftOpen(isStrict ? 10 : 1)
  if (left.length > 0) process.stderr.write(`Left open by ${file}:\n  ${left.join('\n  ')}\n`)
  const { TEST_DURATIONS: durations } = process.env
  if (durations) {
    const times = [process.uptime(), processorSeconds()].map(seconds => seconds.toFixed(1)).join(' ')
    appendFileSync(durations, `${times} ${relative(checkout, fileURLToPath(file))}\n`)
  }
  process.exit(isStrict && left.length > 0 ? 1 : 0)
})

/** Processor seconds of this process, and of its children that have ended. */
function processorSeconds(): number {
  const { userCPUTime, systemCPUTime } = process.resourceUsage()
  const [childUser, childSystem] = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ').slice(13, 15)
  return (userCPUTime + systemCPUTime) / 1e6 + (Number(childUser) + Number(childSystem)) / 100
}
