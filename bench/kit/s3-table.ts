import { quantile } from './sides.ts'

/** One line of the report: a figure of each product, by its name. A product without one is left out. */
export interface Row {
  title: string
  unit: string
  /** Which figure is the better one. */
  better: 'more' | 'less'
  figures: ReadonlyMap<string, number>
}

interface Verdict {
  /** The rival with the best figure of the run. */
  best: string
  /** Of Berth to that rival, so that 1 is as good and more is better: of the figures, or of their inverses where less is better. */
  ratio: number
  met: boolean
}

const berth = 'Berth'

/** Null where Berth or every rival has no figure. */
export function verdictOf({ figures, better }: Row): Verdict | null {
  const rivals = [...figures].filter(([name]) => name !== berth)
  const [best] = rivals.sort(([, a], [, b]) => (better === 'more' ? b - a : a - b))
  const ours = figures.get(berth)
  if (!best || ours === undefined) return null
  const ratio = better === 'more' ? ours / best[1] : best[1] / ours
  return { best: best[0], ratio, met: ratio >= 1 }
}

/** A table in Markdown that is as readable in a terminal. */
export function tableOf(products: readonly string[], rows: readonly Row[]): string {
  const lines = rows.map(row => {
    const verdict = verdictOf(row)
    return [
      `${row.title}, ${row.unit}`,
      ...products.map(name => figureOf(row.figures.get(name))),
      verdict ? `${verdict.ratio.toFixed(2)} of ${verdict.best}` : '',
      verdict ? (verdict.met ? 'met' : '**missed**') : '',
    ]
  })
  const all = [['', ...products, 'Berth / best rival', 'goal: 1.00'], ...lines]
  const widths = all[0]!.map((_, column) => Math.max(...all.map(line => line[column]!.length)))
  const [head, ...body] = all.map(line => {
    const cells = line.map((cell, n) =>
      n > 0 && n <= products.length ? cell.padStart(widths[n]!) : cell.padEnd(widths[n]!),
    )
    return `| ${cells.join(' | ')} |`
  })
  const rule = widths.map((width, n) =>
    n > 0 && n <= products.length ? `${'-'.repeat(width + 1)}:` : '-'.repeat(width + 2),
  )
  return [head, `|${rule.join('|')}|`, ...body].join('\n')
}

/** Three digits that count, and no more than a tenth. */
function figureOf(figure: number | undefined): string {
  if (figure === undefined) return '-'
  return figure < 100 ? figure.toFixed(1) : figure.toFixed(0)
}

/** The median of each figure of several rounds, of which some may have none. */
export function medians(rounds: readonly (Record<string, number> | null)[]): Record<string, number> {
  const measured = rounds.filter(round => round !== null)
  const names = Object.keys(measured[0] ?? {})
  return Object.fromEntries(
    names.map(name => [
      name,
      quantile(
        measured.map(round => round[name]!),
        0.5,
      ),
    ]),
  )
}
