import { createInterface } from 'node:readline/promises'

/** Asks the person in front, unless `yes`. Throws an Error when nobody can be asked, or the answer is not yes. */
export async function confirm(question: string, yes: boolean | undefined): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY) throw new Error(`${question}\nNobody can be asked here: say so with --yes.`)
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await lines.question(`${question} [y/N] `).finally(() => lines.close())
  if (!/^y(es)?$/i.test(answer.trim())) throw new Error('Nothing was done.')
}

/** Has the person in front type a name before what cannot be taken back, unless `yes`. Throws an Error when it is not typed. */
export async function confirmName(name: string, yes: boolean | undefined): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY) throw new Error('Nobody can be asked here: say so with --yes.')
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await lines.question(`Type ${name} to go on: `).finally(() => lines.close())
  if (answer.trim() !== name) throw new Error('Nothing was done.')
}
