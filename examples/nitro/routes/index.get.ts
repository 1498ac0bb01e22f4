export default () => 'hello\n'
