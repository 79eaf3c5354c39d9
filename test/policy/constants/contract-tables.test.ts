import { readFileSync } from 'node:fs'
import test from 'ava'
import { countsAsAgreed, limitsAsAgreed } from './limits.ts'
import { numbersAsAgreed } from './numbers.ts'
import { plansAsAgreed } from './plans.ts'

const contract = readFileSync('docs/contract.md', 'utf8')

/** The rows of the tables below one rule: the texts of their cells. */
function rowsOf(rule: string): string[][] {
  const [, below = ''] = contract.split(`\n**${rule} `)
  const lines = below.split(/\n(?:\*\*\d|## )/)[0]!.split('\n')
  return lines.filter(line => line.startsWith('| ')).map(line => line.slice(2, -2).split(' | '))
}

test('section 9 of the contract has the limits of every endpoint, and what is counted one by one', t => {
  const written = (rule: string) =>
    Object.fromEntries(
      rowsOf(rule)
        .slice(1)
        .map(([name, words]) => [name!.replaceAll('`', ''), words!.split('; ')]),
    )
  t.deepEqual(written('9.3'), limitsAsAgreed)
  t.deepEqual(written('9.4'), countsAsAgreed)
})

/** Every number below a value, by its path. */
const leaves = (value: unknown, path: string): [path: string, number: number][] =>
  typeof value === 'number'
    ? [[path, value]]
    : Object.entries(value as object).flatMap(([name, inner]) => leaves(inner, path ? `${path}.${name}` : name))

test('section 9 has the numbers of policy/, and all of those that limit requests', t => {
  const written = rowsOf('9.5')
    .slice(1)
    .map(([, number, constant]) => [constant, Number(number!.replaceAll(',', ''))])
  const known = Object.entries(numbersAsAgreed).flatMap(([file, values]) =>
    leaves(values, '').map(([path, number]): [string, number] => [`\`${file}\` \`${path}\``, number]),
  )
  const agreed = new Map(known)
  for (const [constant, number] of written) t.is(number, agreed.get(constant as string), String(constant))
  const callers = known.filter(([constant]) => /^`(limits|request-caps)\.ts`/.test(constant))
  t.deepEqual(
    callers.filter(([constant]) => !written.some(([name]) => name === constant)),
    [],
  )
})

test('section 13 has the limits of the tiers for language models', t => {
  const written = rowsOf('13.5')
    .slice(1)
    .map(([name, ...figures]) => [name!.replaceAll('`', ''), ...figures.map(Number)])
  const figures = ['standard-4', 'pro-12', 'enterprise-24'].map(plan => {
    const [perDay, ...rest] = plansAsAgreed[plan]!.slice(-5)
    return [plan.split('-')[0], ...rest, perDay]
  })
  t.deepEqual(written, figures)
})

test('section 11 has the plans with their figures, in the order of downgrades', t => {
  const written = rowsOf('11.1')
    .slice(1)
    .map(([name, ...figures]) => [name!.replaceAll('`', ''), figures.map(Number)])
  const figures = Object.entries(plansAsAgreed).map(([name, all]) => [name, [0, 1, 2, 3, 5, 6, 7].map(at => all[at])])
  t.deepEqual(written, figures)
})
