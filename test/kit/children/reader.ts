import { readFileSync } from 'node:fs'

// Reads a file of equal lines repeatedly; prints how often, and what was wrong.
const path = process.argv[2] as string
const faults: string[] = []
let reads = 0
let ending = false

function read(): void {
  try {
    const text = readFileSync(path, 'utf8')
    const line = text.slice(0, text.indexOf('\n') + 1)
    if (text !== line.repeat(200_000)) faults.push(`${text.length} characters that begin with ${line.trim()}`)
    reads++
  } catch (error) {
    faults.push((error as Error).message)
  }
  if (ending) process.send?.({ reads, faults }, () => process.exit(0))
  else setTimeout(read, 5)
}

process.once('message', () => {
  ending = true
})
read()
