import test from 'ava'
import { languageModelContract } from '../../contracts/language-model.ts'
import { FakeModel } from '../../kit/fakes/language-model.ts'

languageModelContract(test, 'fake', async () => {
  const model = new FakeModel()
  return {
    model,
    answers: answer => model.next(answer),
    fails: how => model.next({ fails: how }),
    hangs: () => model.next({ hangsAfter: { prompt: 9, completion: 1 } }),
    received: async count => void (model.requests.length >= count),
  }
})
