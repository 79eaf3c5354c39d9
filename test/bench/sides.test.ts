import test from 'ava'
import { inTurn, quantile, verdict } from '../../bench/kit/sides.ts'

test('both sides are measured in every round, each as often first; warm-up is not counted', async t => {
  const order: string[] = []
  const measure = (name: string) => async () => order.push(name)
  const figures = await inTurn(3, { bare: measure('bare'), berth: measure('berth') })
  t.deepEqual(order, ['bare', 'berth', 'berth', 'bare', 'bare', 'berth', 'berth', 'bare'])
  t.deepEqual(figures, { bare: [4, 5, 8], berth: [3, 6, 7] })
})

test('a figure is one that was measured, and a goal that is missed is called missed', t => {
  t.is(quantile([3, 1, 2], 0.5), 2)
  t.is(quantile([3, 1, 2], 0.99), 3)
  t.is(quantile([], 0.5), Number.NaN)
  t.is(verdict('at most 3', false), 'goal: at most 3, MISSED')
  t.is(verdict('at most 3', true), 'goal: at most 3, met')
})
