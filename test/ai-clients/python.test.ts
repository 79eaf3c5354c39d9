import test from 'ava'
import { testGateway, testScenarios } from '../kit/ai/client-scenarios.ts'
import { PythonClient, pythonClasses } from '../kit/ai/python-client.ts'

const gateway = testGateway()

for (const kind of pythonClasses) {
  const client = new PythonClient(kind)
  test.after.always(`end the program of ${kind}`, () => client.end())
  testScenarios(`Python, ${kind}`, client, gateway)
}
