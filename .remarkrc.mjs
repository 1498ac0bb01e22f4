// Links between the pages: `npm run lint` looks whether each leads to a file and a heading that exist.
import validateLinks from 'remark-validate-links'

export default { plugins: [[validateLinks, { repository: false }]] }
